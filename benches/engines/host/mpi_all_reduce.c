/* Any MPI as an engine of `lanesum bench`: MPI_Allreduce by sum, in place, on private buffers, back to back.
 *
 * Usage: mpirun -n RANKS ... mpi_all_reduce FOLDER CPUS SECONDS
 *
 * The ranks stay for the whole bench. Rank r keeps to the r-th of CPUS (commas between them, `-` for none) and reads its
 * orders from the pipe FOLDER/rank-r, where it sleeps while others are timed; the end of the pipe is the end of the work.
 * An order is a line `DTYPE BUFFERS ELEMENTS WARM_UPS CALLS SALT`. What there is to say are lines of JSON on stdout.
 * No order may take longer than SECONDS, and no rank outlives its launcher.
 *
 * Same loop as in crates/lanesum-cli/src/bench/host/rank.rs, gloo_all_reduce.py and oneccl_all_reduce.cpp, change all together:
 * check every element of a sum of numbers that depend on SALT, zero the buffer, warm up, time each call, check another sum,
 * report the slowest rank's median and 99th percentile. The timed calls sum zeros, so that values neither overflow nor
 * become subnormal however many calls there are.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Intel MPI, and MPICH from 5 on. */
#if defined(MPIX_C_BF16)
#define BF16 MPIX_C_BF16
#elif defined(MPIX_BFLOAT16)
#define BF16 MPIX_BFLOAT16
#endif

static int rank, world;

static void say(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

/* Whoever started the launcher ends all ranks once one of them says that it failed. */
static void fail(const char *what)
{
    char line[256];

    snprintf(line, sizeof line, "{\"event\":\"failed\",\"reason\":\"rank %d: %s\"}", rank, what);
    say(line);
    sleep(1);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Whether this process stays on the CPU of that rank. */
static int pin(const char *cpus, int to)
{
    cpu_set_t own;
    int place;

    if (strcmp(cpus, "-") == 0)
        return 1;
    for (place = 0; place < to && cpus != NULL; place++) {
        cpus = strchr(cpus, ',');
        cpus = cpus == NULL ? NULL : cpus + 1;
    }
    if (cpus == NULL)
        return 0;
    CPU_ZERO(&own);
    CPU_SET(atoi(cpus), &own);
    return sched_setaffinity(0, sizeof own, &own) == 0;
}

/* Before the library touches memory that the ranks share, if the launcher tells the rank. */
static void pin_early(const char *cpus)
{
    const char *told = getenv("OMPI_COMM_WORLD_RANK");

    if (told == NULL)
        told = getenv("PMI_RANK");
    if (told != NULL)
        pin(cpus, atoi(told));
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

/* A whole number below 16: sums of sixteen ranks are exact in every type and in every order. */
static uint32_t number(uint32_t of_rank, uint32_t index, uint32_t salt)
{
    uint32_t mixed = (index ^ of_rank * 0x9e3779b9u ^ salt * 0x85ebca6bu) * 0x2c1b3c6du;

    mixed = (mixed ^ mixed >> 15) * 0x297a2d39u;
    return mixed >> 28;
}

struct job {
    int is_bf16, elements, calls, warm_ups;
    uint32_t salt;
    void *buffer;
    MPI_Datatype type;
};

static void put(const struct job *job, int index, float value)
{
    uint32_t bits;

    if (!job->is_bf16) {
        ((float *)job->buffer)[index] = value;
        return;
    }
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)job->buffer)[index] = (uint16_t)(bits >> 16);
}

static float get(const struct job *job, int index)
{
    uint32_t bits;
    float value;

    if (!job->is_bf16)
        return ((float *)job->buffer)[index];
    bits = (uint32_t)((uint16_t *)job->buffer)[index] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void all_reduce(const struct job *job)
{
    if (MPI_Allreduce(MPI_IN_PLACE, job->buffer, job->elements, job->type, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        fail("MPI_Allreduce failed");
}

static void check(const struct job *job, uint32_t salt)
{
    char line[256];
    int index, other;

    for (index = 0; index < job->elements; index++)
        put(job, index, (float)number((uint32_t)rank, (uint32_t)index, salt));
    all_reduce(job);
    for (index = 0; index < job->elements; index++) {
        float expected = 0, found = get(job, index);

        for (other = 0; other < world; other++)
            expected += (float)number((uint32_t)other, (uint32_t)index, salt);
        if (found == expected)
            continue;
        snprintf(line, sizeof line, "{\"event\":\"wrong\",\"reason\":\"rank %d: element %d is %g, expected %g\"}", rank, index,
                 (double)found, (double)expected);
        say(line);
        sleep(1);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Gives the buffer back before anything is said: the next probe of the cores is not to meet that. */
static void measure(const struct job *job)
{
    size_t width = job->is_bf16 ? 2 : 4, bytes = (size_t)job->elements * width;
    double *times = malloc((size_t)job->calls * sizeof *times), own[2], slowest[2];
    char line[256];
    int call;

    if (times == NULL)
        fail("no memory");
    check(job, 2 * job->salt);
    memset(job->buffer, 0, bytes);
    for (call = 0; call < job->warm_ups; call++)
        all_reduce(job);
    MPI_Barrier(MPI_COMM_WORLD);
    for (call = 0; call < job->calls; call++) {
        double started = now_us();

        all_reduce(job);
        times[call] = now_us() - started;
    }
    check(job, 2 * job->salt + 1);
    qsort(times, (size_t)job->calls, sizeof *times, ascending);
    own[0] = times[(job->calls + 1) / 2 - 1];
    own[1] = times[((long long)job->calls * 99 + 99) / 100 - 1];
    MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    free(times);
    free(job->buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        return;
    snprintf(line, sizeof line, "{\"event\":\"point\",\"p50\":%.4f,\"p99\":%.4f,\"algorithm\":null}", slowest[0], slowest[1]);
    say(line);
}

static void obey(const char *order)
{
    struct job job = {0};
    char dtype[8], buffers[16], line[256];

    if (sscanf(order, "%7s %15s %d %d %d %u", dtype, buffers, &job.elements, &job.warm_ups, &job.calls, &job.salt) != 6
        || job.elements < 1 || job.calls < 1)
        fail("cannot read its order");
    if (strcmp(dtype, "f32") == 0) {
        job.type = MPI_FLOAT;
#ifdef BF16
    } else if (strcmp(dtype, "bf16") == 0) {
        job.is_bf16 = 1;
        job.type = BF16;
#endif
    } else {
        snprintf(line, sizeof line, "{\"event\":\"missing\",\"reason\":\"it has no sum of %s\"}", dtype);
        if (rank == 0)
            say(line);
        return;
    }
    job.buffer = aligned_alloc(64, ((size_t)job.elements * 4 + 63) / 64 * 64);
    if (job.buffer == NULL)
        fail("no memory");
    measure(&job);
}

/* A word for a string of JSON. */
static void tidy(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text == '"' || *text == '\\') {
            *text = '\0';
            return;
        }
}

int main(int argc, char **argv)
{
    char path[4096], order[256], version[MPI_MAX_LIBRARY_VERSION_STRING], line[512];
    int length;
    FILE *orders;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 4)
        pin_early(argv[2]);
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (argc != 4)
        fail("usage: mpi_all_reduce FOLDER CPUS SECONDS");
    if (!pin(argv[2], rank))
        fail("cannot stay on its CPU");
    snprintf(path, sizeof path, "%s/rank-%d", argv[1], rank);
    orders = fopen(path, "r");
    if (orders == NULL)
        fail("cannot open its orders");
    MPI_Get_library_version(version, &length);
    tidy(version);
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(line, sizeof line, "{\"event\":\"ready\",\"ranks\":%d,\"version\":\"%.200s\"}", world, version);
    if (rank == 0)
        say(line);
    while (fgets(order, sizeof order, orders) != NULL) {
        alarm((unsigned)atoi(argv[3]));
        obey(order);
        alarm(0);
    }
    MPI_Finalize();
    return 0;
}
