// A transport is a folder: tests/transport/tcp is laid beside engine/ in a copy of the tree,
// in which nothing else changes, and the tools and programs that use the library have it.

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/config.h"
#include "tests/command.h"
#include "tests/places.h"

namespace ibcoll {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_tools::CommandRan;
using testing_tools::run_command;

/// What IBCOLL_TRANSPORT may be in the copy: what it may be here, and tcp. Transports that are
/// folders stand last, in the order of their names.
std::vector<std::string> names_in_tree() {
  std::vector<std::string> all = config_choices("IBCOLL_TRANSPORT");
  const auto folders = std::next(std::ranges::find(all, "loopback"));
  all.insert(std::upper_bound(folders, all.end(), "tcp"), "tcp");
  return all;
}

class AddedFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "ibcoll-folder-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    tree_ = name;
    const fs::path root = testing_tools::source_dir();
    for (const auto& entry : fs::directory_iterator(root)) {
      const std::string file = entry.path().filename();
      if (file.starts_with(".") || file.starts_with("build")) continue;
      fs::copy(entry.path(), tree_ / file, fs::copy_options::recursive);
    }
    fs::copy(root / "tests/transport/tcp", tree_ / "tcp");
    const CommandRan built = in_tree(
        "cmake --preset release -DIBCOLL_BUILD_TESTS=OFF -DIBCOLL_BUILD_PERF=OFF 2>&1 && "
        "cmake --build build --target ib_a2a_bench --target ib_info --target ibcoll 2>&1 && "
        "cc docs/examples/transpose.c -Iinclude -Lbuild -libcoll -o transpose 2>&1");
    ASSERT_EQ(built.status, 0) << built.out.substr(built.out.size() > 4000 ? built.out.size() - 4000
                                                                           : 0);
  }
  void TearDown() override { fs::remove_all(tree_); }

  CommandRan in_tree(const std::string& command) const {
    return run_command("cd " + tree_.string() + " && " + command);
  }

 private:
  fs::path tree_;
};

TEST_F(AddedFolder, IsATransportOfAllToolsAndProgramsFull) {
  const std::vector<std::string> names = names_in_tree();
  const CommandRan help = in_tree("build/bin/ib_a2a_bench --help 2>&1");
  EXPECT_THAT(help.out, HasSubstr(fmt::format("{{{}}}", fmt::join(names, ","))));
  const CommandRan settings = in_tree("build/bin/ib_info 2>&1");
  EXPECT_THAT(settings.out, HasSubstr(fmt::format("one of {}", fmt::join(names, ", "))));

  const std::string run =
      "build/bin/ib_a2a_bench --layout 3,1,2 --sizes 0,8,20000 --iterations 5 --check ";
  const CommandRan named = in_tree(run + "--transport tcp 2>&1");
  EXPECT_EQ(named.status, 0) << named.out;
  EXPECT_THAT(named.out, HasSubstr("between servers: tcp"));
  for (const char* collective : {"alltoall", "allgather", "bcast", "allreduce", "reduce_scatter"}) {
    const CommandRan by_setting = in_tree("IBCOLL_TRANSPORT=tcp " + run +
                                          "--algorithm all --collective " + collective + " 2>&1");
    EXPECT_EQ(by_setting.status, 0) << by_setting.out;
    EXPECT_THAT(by_setting.out, HasSubstr("between servers: tcp"));
  }

  const CommandRan program =
      in_tree("IBCOLL_TRANSPORT=tcp LD_LIBRARY_PATH=build ./transpose 6 3,1,2 2>&1");
  EXPECT_EQ(program.status, 0) << program.out;
  EXPECT_THAT(program.out, HasSubstr("6 ranks on 3 servers: transposed"));
}

}  // namespace
}  // namespace ibcoll
