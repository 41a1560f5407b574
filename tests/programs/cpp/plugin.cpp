// A plugin with static objects, thread-local objects and exceptions of its own.
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Registry {
    std::map<std::string, std::vector<int>> entries;
    Registry() {
        for (int i = 0; i < 50; i++)
            entries["a name that is too long for the small string buffer " + std::to_string(i)].resize(
                static_cast<std::size_t>(i) + 1, i);
    }
    ~Registry() {
        entries.clear();
    }
};

Registry registry;
thread_local std::string per_thread = "also too long for the small string buffer, by quite a bit";

} // namespace

extern "C" int plugin_self_check() {
    int sum = 0;
    for (const auto &[name, values] : registry.entries)
        for (int value : values)
            sum += value + (name.empty() ? 1 : 0);
    // In a thread of its own, since a live thread-local object would keep the plugin from being unloaded.
    std::string copied;
    std::thread([&copied] {
        per_thread += "!";
        copied = per_thread;
    }).join();
    try {
        // Volatile, so that the compiler neither rejects the size nor drops the request.
        volatile std::size_t impossible = static_cast<std::size_t>(-1) / 2;
        char *volatile never = new char[impossible];
        delete[] never;
        return 2;
    } catch (const std::bad_alloc &) {
    }
    return sum == 41650 && copied.back() == '!' ? 0 : 1;
}

extern "C" void *plugin_give_malloc(std::size_t size) {
    return std::malloc(size);
}

extern "C" void plugin_take_malloc(void *block) {
    std::free(block);
}
