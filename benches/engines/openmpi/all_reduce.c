/* OpenMPI as an engine of the benches: one MPI_Allreduce of floats by sum, in place, on private
 * buffers, back to back.
 *
 * Usage: mpirun -n RANKS ... all_reduce BYTES CALLS
 *
 * Same loop as ../lanesum/all_reduce.rs, change both together: pin rank r to the r-th core it may
 * use, check every element of one sum, warm up, time each call, report the slowest rank's median
 * and 99th percentile as one line of JSON from rank 0. The timed calls sum zeros, so that values
 * neither overflow nor become subnormal however many calls there are.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fail(const char *what)
{
    fprintf(stderr, "error: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

static int pin(int rank)
{
    cpu_set_t allowed, own;
    int count, wanted, core;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    count = CPU_COUNT(&allowed);
    if (count == 0)
        return -1;
    wanted = rank % count;
    for (core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || wanted-- > 0)
            continue;
        CPU_ZERO(&own);
        CPU_SET(core, &own);
        return sched_setaffinity(0, sizeof own, &own);
    }
    return -1;
}

static double now_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static int all_reduce(float *buffer, int elements)
{
    return MPI_Allreduce(MPI_IN_PLACE, buffer, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Small integers: every order of additions gives the same sum. */
static int answers_are_right(float *buffer, int elements, int rank, int world)
{
    float ranks = (float)(world * (world + 1) / 2);
    int i;

    for (i = 0; i < elements; i++)
        buffer[i] = (float)(rank + 1) * (float)(i % 61);
    if (all_reduce(buffer, elements) != MPI_SUCCESS)
        return 0;
    for (i = 0; i < elements; i++)
        if (buffer[i] != ranks * (float)(i % 61))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int rank, world, elements, calls, i;
    float *buffer;
    double *times, own[2], slowest[2];

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (argc != 3)
        return fail("usage: all_reduce BYTES CALLS");
    elements = (int)(atoll(argv[1]) / (long long)sizeof *buffer);
    calls = atoi(argv[2]);
    if (elements < 1 || calls < 1)
        return fail("BYTES must hold a float and CALLS must be one or more");
    if (pin(rank) != 0)
        return fail("cannot pin a rank to a core");
    buffer = aligned_alloc(64, ((size_t)elements * sizeof *buffer + 63) / 64 * 64);
    times = malloc((size_t)calls * sizeof *times);
    if (buffer == NULL || times == NULL)
        return fail("no memory");
    if (!answers_are_right(buffer, elements, rank, world))
        return fail("wrong sum");

    memset(buffer, 0, (size_t)elements * sizeof *buffer);
    for (i = 0; i < calls / 10 + 1; i++)
        all_reduce(buffer, elements);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < calls; i++) {
        double started = now_us();

        if (all_reduce(buffer, elements) != MPI_SUCCESS)
            return fail("a timed call failed");
        times[i] = now_us() - started;
    }

    qsort(times, (size_t)calls, sizeof *times, ascending);
    own[0] = times[calls / 2];
    own[1] = times[(long long)calls * 99 / 100];
    MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"median_us\":%.4f,\"p99_us\":%.4f,\"algorithm\":null}\n", slowest[0], slowest[1]);
    free(times);
    free(buffer);
    MPI_Finalize();
    return 0;
}
