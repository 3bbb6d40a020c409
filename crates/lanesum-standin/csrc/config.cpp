#include "config.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace standin {
namespace {

using Words = std::istringstream;

bool device(Words& words, int& index) { return words >> index && index >= 0 && index < DEVICES_MAX; }

bool mark(Words& words, bool (&devices)[DEVICES_MAX]) {
    int index;
    if (!device(words, index)) return false;
    devices[index] = true;
    return true;
}

bool toggle(Words& words, bool& what) {
    std::string word;
    if (!(words >> word) || (word != "on" && word != "off")) return false;
    what = word == "on";
    return true;
}

bool kind(Words& words, Lie& lie) {
    static const std::map<std::string, Lie> kinds = {
        {"drop", Lie::Drop}, {"mirror", Lie::Mirror}, {"delay", Lie::Delay}, {"tear", Lie::Tear}};
    std::string word;
    words >> word;
    const auto found = kinds.find(word);
    if (found == kinds.end()) return false;
    lie = found->second;
    return true;
}

bool lie(Words& words, Config& config) {
    int from, to;
    return device(words, from) && device(words, to) && kind(words, config.lies[from][to]);
}

bool lie_host(Words& words, Config& config) {
    int from;
    return device(words, from) && kind(words, config.host_lies[from]);
}

bool refuse(Words& words, Config& config) {
    int from, to;
    if (!device(words, from) || !device(words, to)) return false;
    config.refused[from][to] = true;
    return true;
}

bool compute(Words& words, Config& config) {
    char dot;
    return static_cast<bool>(words >> config.major >> dot >> config.minor) && dot == '.';
}

bool failing(Words& words, Config& config) {
    Failing entry;
    if (!(words >> entry.symbol >> entry.call >> entry.code)) return false;
    config.failing.push_back(entry);
    return true;
}

bool launch_error(Words& words, Config& config) {
    u64 nth;
    if (!(words >> nth)) return false;
    config.launch_errors.push_back(nth);
    return true;
}

// Granularities of less than a page, or of odd size, can't be mapped.
bool granularity(Words& words, Config& config) {
    return words >> config.granularity && config.granularity >= 4096 && config.granularity % 4096 == 0;
}

using Setting = std::function<bool(Words&, Config&)>;

const std::map<std::string, Setting>& settings() {
    static const std::map<std::string, Setting> all = {
        {"devices", [](Words& w, Config& c) { return w >> c.devices && c.devices >= 0 && c.devices <= DEVICES_MAX; }},
        {"compute", compute},
        {"multiprocessors", [](Words& w, Config& c) { return static_cast<bool>(w >> c.multiprocessors); }},
        {"threads", [](Words& w, Config& c) { return w >> c.threads && c.threads >= 1 && c.threads <= 1024; }},
        {"resident", [](Words& w, Config& c) { return w >> c.resident && c.resident >= 1; }},
        {"memory", [](Words& w, Config& c) { return static_cast<bool>(w >> c.memory); }},
        {"driver", [](Words& w, Config& c) { return static_cast<bool>(w >> c.driver); }},
        {"granularity", granularity},
        {"vmm", [](Words& w, Config& c) { return toggle(w, c.vmm); }},
        {"ipc", [](Words& w, Config& c) { return toggle(w, c.ipc); }},
        {"cubins", [](Words& w, Config& c) { return toggle(w, c.cubins); }},
        {"ptx", [](Words& w, Config& c) { return toggle(w, c.ptx); }},
        {"programmatic", [](Words& w, Config& c) { return toggle(w, c.programmatic); }},
        {"refuse", refuse},
        {"lie", lie},
        {"lie_host", lie_host},
        {"exclusive", [](Words& w, Config& c) { return mark(w, c.exclusive); }},
        {"prohibited", [](Words& w, Config& c) { return mark(w, c.prohibited); }},
        {"watchdog", [](Words& w, Config& c) { return mark(w, c.watchdog); }},
        {"fail", failing},
        {"launch_error", launch_error},
    };
    return all;
}

void read_line(const std::string& line, Config& config) {
    Words words(line);
    std::string name;
    if (!(words >> name)) return;
    const auto found = settings().find(name);
    if (found != settings().end() && found->second(words, config)) return;
    std::fprintf(stderr, "stand-in: a setting that nobody understands: %s\n", line.c_str());
    config.sound = false;
}

Config* load() {
    Config* config = new Config;
    const char* path = std::getenv("LANESUM_STANDIN");
    if (path == nullptr || *path == 0) return config;
    config->path = path;
    std::ifstream file(path);
    if (!file) {
        std::fprintf(stderr, "stand-in: no configuration at %s\n", path);
        config->sound = false;
    }
    for (std::string line; std::getline(file, line);) read_line(line, *config);
    return config;
}

}  // namespace

const Config& config() {
    // Never destroyed: worker threads outlive the static objects of an ending process.
    static const Config* const loaded = load();
    return *loaded;
}

}  // namespace standin
