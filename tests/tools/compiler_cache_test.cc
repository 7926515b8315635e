// What a build takes from ccache: a second clone what the first one compiled, and no header that
// has changed since, not even in a comment or a macro.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/places.h"
#include "tests/tool.h"

namespace ibcoll {
namespace {

using namespace testing_tools;

/// A tree of one program and one precompiled header, built as this project is.
class Clone {
 public:
  explicit Clone(const std::string& name) : name_(name) {
    std::filesystem::create_directories(folder() / name);
    write("CMakeLists.txt",
          fmt::format("cmake_minimum_required(VERSION 3.25)\nproject(tree CXX)\n"
                      "include({0}/cmake/CompilerCache.cmake)\ninclude({0}/cmake/Headers.cmake)\n"
                      "set(CMAKE_UNITY_BUILD ON)\n"
                      "add_executable(program program.cc)\n"
                      "target_include_directories(program PRIVATE .)\n"
                      "ibcoll_own_headers(program \"\\\"header.h\\\"\")\n",
                      source_dir()));
  }

  void write(const std::string& source, const std::string& text) const {
    file(name_ + "/" + source, text);
  }

  /// What the program prints, or why it could not be built.
  std::string build_and_run() const {
    const std::string place = (folder() / name_).string();
    const Ran ran = run_shell(fmt::format(
        "export CCACHE_DIR={0}/cache && cd {1} && (cmake -G Ninja -B build "
        "-DCMAKE_BUILD_TYPE=Release && cmake --build build) > log 2>&1 || cat log; build/program",
        folder().string(), place));
    return ran.out;
  }

 private:
  std::string name_;
};

/// How many compilations the cache has not known.
int misses() {
  const Ran ran = run_shell(fmt::format(
      "CCACHE_DIR={}/cache ccache --print-stats | sed -n 's/^cache_miss\t//p'", folder().string()));
  return std::atoi(ran.out.c_str());
}

class CompilerCache : public ::testing::Test {
  void SetUp() override {
    if (run_shell("command -v ccache ninja").status != 0) GTEST_SKIP() << "no ccache, or no ninja";
  }
};

TEST_F(CompilerCache, ServesOtherClonesAndNoHeaderThatHasChanged) {
  const std::string includes = "#include \"header.h\"\n#include <cstdio>\n";
  const Clone first("first");
  first.write("header.h", "#pragma once\n// one\n#define TEXT \"one\"\nclass Declared {};\n");
  first.write("program.cc", includes + "int main() { std::puts(TEXT); }\n");
  EXPECT_EQ(first.build_and_run(), "one\n");
  const int compiled = misses();
  EXPECT_GT(compiled, 0);

  const Clone second("second");
  second.write("header.h", "#pragma once\n// one\n#define TEXT \"one\"\nclass Declared {};\n");
  second.write("program.cc", includes + "int main() { std::puts(TEXT); }\n");
  EXPECT_EQ(second.build_and_run(), "one\n");
  EXPECT_EQ(misses(), compiled);

  second.write("header.h", "#pragma once\n// two\n#define TEXT \"one\"\nclass Declared {};\n");
  second.write("program.cc", includes + "int main() { std::puts(\"a \" TEXT); }\n");
  EXPECT_EQ(second.build_and_run(), "a one\n");

  second.write("header.h", "#pragma once\n// two\n#define TEXT \"two\"\nclass Declared {};\n");
  EXPECT_EQ(second.build_and_run(), "a two\n");

  // A header that was compiled in the place of an older one is as good as others.
  const int compiled_since = misses();
  const Clone third("third");
  third.write("header.h", "#pragma once\n// two\n#define TEXT \"two\"\nclass Declared {};\n");
  third.write("program.cc", includes + "int main() { std::puts(\"a \" TEXT); }\n");
  EXPECT_EQ(third.build_and_run(), "a two\n");
  EXPECT_EQ(misses(), compiled_since);
}

}  // namespace
}  // namespace ibcoll
