#include "parts.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// Volatile, so that the compiler neither rejects the size nor drops the request.
volatile std::size_t impossible = static_cast<std::size_t>(-1) / 2;
char *volatile seen;

struct alignas(64) Line {
    std::array<unsigned char, 192> bytes;
};

int deep(int depth) {
    const std::vector<std::string> locals(5, std::string(100, 'd'));
    if (depth == 0)
        throw std::runtime_error(locals[0] + " at the bottom");
    return deep(depth - 1) + static_cast<int>(locals.size());
}

std::string nested(int level) {
    try {
        if (level == 0)
            throw std::out_of_range("the innermost");
        nested(level - 1);
    } catch (...) {
        std::throw_with_nested(std::runtime_error("level " + std::to_string(level)));
    }
    return {};
}

int depth_of(const std::exception &error) {
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        return 1 + depth_of(inner);
    }
    return 1;
}

} // namespace

std::string failures_report() {
    std::string out;
    int caught = 0;
    for (int i = 0; i < 500; i++) {
        try {
            seen = new char[impossible];
        } catch (const std::bad_alloc &) {
            caught++;
        }
        try {
            std::vector<long> values;
            values.resize(values.max_size());
        } catch (const std::bad_alloc &) {
            caught++;
        }
        seen = new (std::nothrow) char[impossible];
        if (!seen)
            caught++;
    }
    out += "bad_alloc " + std::to_string(caught) + '\n';
    try {
        deep(200);
    } catch (const std::runtime_error &error) {
        out += "unwound " + std::to_string(std::strlen(error.what())) + '\n';
    }
    try {
        nested(20);
    } catch (const std::exception &error) {
        out += "nested " + std::to_string(depth_of(error)) + '\n';
    }
    std::exception_ptr carried;
    std::thread([&carried] {
        try {
            deep(10);
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(carried);
    } catch (const std::exception &error) {
        out += "carried " + std::to_string(std::strlen(error.what())) + '\n';
    }
    std::vector<std::unique_ptr<Line>> lines;
    bool aligned = true;
    for (int i = 0; i < 1000; i++) {
        lines.push_back(std::make_unique<Line>());
        aligned = aligned && reinterpret_cast<std::size_t>(lines.back().get()) % 64 == 0;
    }
    return out + (aligned ? "aligned\n" : "not aligned\n");
}
