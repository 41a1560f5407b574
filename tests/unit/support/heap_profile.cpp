#include "support/heap_profile.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "hakmem.h"

namespace hakmem_test {

namespace {

double chance(double size, double interval) {
    return -std::expm1(-size / interval);
}

// As pprof and jeprof do: by the mean size of the line's blocks.
Amount scaled_up(const Amount &sampled, double interval) {
    if (sampled.blocks == 0) {
        return {};
    }
    const double weight = 1 / chance(sampled.bytes / sampled.blocks, interval);
    return {sampled.blocks * weight, sampled.bytes * weight};
}

Amount sum(const HeapProfile &profile, Amount ProfileLine::*figures, std::uintptr_t from, std::uintptr_t to) {
    Amount all;
    for (const ProfileLine &line : profile.lines) {
        const bool counts = (from == 0 && to == UINTPTR_MAX) ||
                            std::any_of(line.frames.begin(), line.frames.end(),
                                        [=](std::uintptr_t frame) { return frame > from && frame <= to; });
        if (counts) {
            const Amount one = scaled_up(line.*figures, profile.interval);
            all.blocks += one.blocks;
            all.bytes += one.bytes;
        }
    }
    return all;
}

// The figures that a line begins with, behind `prefix`; gives how far they reach, or 0.
int read_figures(const std::string &line, const char *prefix, ProfileLine &out) {
    int end = 0;
    const std::string format = std::string(prefix) + " %lf: %lf [ %lf: %lf] @%n";
    const int fields = std::sscanf(line.c_str(), format.c_str(), &out.live.blocks, &out.live.bytes,
                                   &out.total.blocks, &out.total.bytes, &end);
    return fields == 4 ? end : 0;
}

} // namespace

Amount HeapProfile::live(std::uintptr_t from, std::uintptr_t to) const {
    return sum(*this, &ProfileLine::live, from, to);
}

Amount HeapProfile::total(std::uintptr_t from, std::uintptr_t to) const {
    return sum(*this, &ProfileLine::total, from, to);
}

std::string written_by(int (*write)(int fd)) {
    const int fd = memfd_create("hakmem-test", MFD_CLOEXEC);
    EXPECT_GE(fd, 0) << std::strerror(errno);
    EXPECT_EQ(write(fd), 0) << std::strerror(errno);
    std::string text;
    char buffer[4096];
    ssize_t length = 0;
    for (off_t at = 0; (length = pread(fd, buffer, sizeof buffer, at)) > 0; at += length) {
        text.append(buffer, static_cast<std::size_t>(length));
    }
    close(fd);
    return text;
}

HeapProfile parse_heap_profile(const std::string &text) {
    HeapProfile profile;
    std::istringstream stream(text);
    std::string line;
    std::getline(stream, line);
    const auto header = static_cast<std::size_t>(read_figures(line, "heap profile:", profile.header));
    const bool known = std::sscanf(line.c_str() + header, " heap_v2/%lf", &profile.interval) == 1;
    EXPECT_TRUE(header != 0 && known) << line;
    while (std::getline(stream, line) && !line.empty()) {
        ProfileLine parsed;
        const auto end = static_cast<std::size_t>(read_figures(line, "", parsed));
        EXPECT_NE(end, 0u) << line;
        std::istringstream frames(line.substr(end));
        std::string frame;
        while (frames >> frame) {
            EXPECT_EQ(frame.rfind("0x", 0), 0u) << line;
            parsed.frames.push_back(std::stoull(frame, nullptr, 16));
        }
        profile.lines.push_back(parsed);
    }
    EXPECT_TRUE(std::getline(stream, line) && line == "MAPPED_LIBRARIES:") << line;
    while (std::getline(stream, line)) {
        profile.mappings += line + '\n';
    }
    return profile;
}

HeapProfile heap_profile_now() {
    return parse_heap_profile(written_by(hak_profile_dump));
}

double estimate_tolerance(double blocks, double size, double interval) {
    const double p = chance(size, interval);
    return 5 * size * std::sqrt(blocks * (1 - p) / p) + 0.005 * blocks * size + size;
}

Sampling::Sampling(std::size_t interval) {
    hak_profile_stop();
    EXPECT_EQ(hak_profile_start(interval), 0);
}

Sampling::~Sampling() {
    hak_profile_stop();
}

} // namespace hakmem_test
