// A folder for the files of one test, gone when the test has ended.
#ifndef HAKMEM_TEST_FOLDER_H
#define HAKMEM_TEST_FOLDER_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace hakmem_test {

// The process of a death test, which begins anew, has the folder of the process that started it, which alone
// removes it, and the environment variables that the test has set.
class Folder {
  public:
    explicit Folder(std::initializer_list<const char *> variables) : variables_(variables) {
        const char *made = std::getenv(kVariable);
        owner_ = made == nullptr;
        path_ = owner_ ? std::filesystem::path(testing::TempDir()) / ("hakmem-" + std::to_string(getpid()))
                       : std::filesystem::path(made);
        if (owner_) {
            std::filesystem::create_directories(path_);
            setenv(kVariable, path_.c_str(), 1);
        }
    }
    ~Folder() {
        if (owner_) {
            std::filesystem::remove_all(path_);
            unsetenv(kVariable);
            for (const char *variable : variables_) {
                unsetenv(variable);
            }
        }
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    const std::filesystem::path &path() const {
        return path_;
    }

  private:
    static constexpr const char *kVariable = "HAKMEM_TEST_FOLDER";

    std::vector<const char *> variables_;
    std::filesystem::path path_;
    bool owner_ = false;
};

} // namespace hakmem_test

#endif
