// What tools write results with: JSON lines, tables, statistics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "tests/files.h"

namespace ibcoll {
namespace {

using ::testing::HasSubstr;

TEST(JsonLines, WritesOneObjectALineInTheGivenOrder) {
  const std::string path = ::testing::TempDir() + "lines.json." + std::to_string(getpid());
  auto lines = JsonLines::open(path);
  ASSERT_TRUE(lines) << lines.error().message;
  lines->write({{"size", 64}, {"algorithm", "ring"}});
  lines->write({{"bad", std::nan("")}, {"text", "a\nb\xff"}});
  // Flushed line by line: readable before close.
  EXPECT_EQ(testing_tools::content_of(path),
            "{\"size\":64,\"algorithm\":\"ring\"}\n"
            "{\"bad\":null,\"text\":\"a\\nb\xEF\xBF\xBD\"}\n");
  EXPECT_TRUE(lines->close());
  std::filesystem::remove(path);
}

TEST(JsonLines, EmptyPathDropsAll) {
  auto lines = JsonLines::open("");
  ASSERT_TRUE(lines);
  EXPECT_FALSE(lines->active());
  lines->write({{"size", 64}});
  EXPECT_TRUE(lines->close());
}

TEST(JsonLines, UnwritableFileIsNamed) {
  const auto lines = JsonLines::open("/nonexistent/out.json");
  ASSERT_FALSE(lines);
  EXPECT_THAT(lines.error().message, HasSubstr("/nonexistent/out.json"));
  EXPECT_THAT(lines.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(write_file("/nonexistent/out.svg", "text"));
}

TEST(JsonLines, NoSpaceIsReportedAtClose) {
  auto lines = JsonLines::open("/dev/full");
  ASSERT_TRUE(lines);
  lines->write({{"size", 64}});
  const Status closed = lines->close();
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().message, HasSubstr("No space left"));
  EXPECT_FALSE(write_file("/dev/full", "text"));
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  Table table({"size", "algorithm", "median"});
  table.add_row({"64", "ring", "4.20 us"});
  table.add_row({"64K", "two_level_ring", "-"});
  table.add_row({"1M"});
  EXPECT_EQ(table.text(),
            "size  algorithm        median\n"
            "----  --------------  -------\n"
            "  64  ring            4.20 us\n"
            " 64K  two_level_ring        -\n"
            "  1M\n");
}

TEST(Table, LayoutsAreText) {
  Table table({"layout", "n"});
  table.add_row({"24x8", "1"});
  table.add_row({"3,1,2", "10"});
  EXPECT_EQ(table.text(), "layout   n\n------  --\n24x8     1\n3,1,2   10\n");
}

TEST(Stats, OrderStatistics) {
  const double samples[] = {9, 1, 5, 3, 7};
  EXPECT_EQ(minimum(samples), 1);
  EXPECT_EQ(maximum(samples), 9);
  EXPECT_EQ(median(samples), 5);
  EXPECT_EQ(median(std::span(samples).first(4)), 4);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.99), 8.92);
  EXPECT_EQ(quantile(samples, 0), 1);
  EXPECT_EQ(quantile(samples, 1), 9);
}

TEST(Stats, Means) {
  const double samples[] = {1, 100, 2, 3, 4};
  EXPECT_DOUBLE_EQ(trimmed_mean(samples, 0.2), 3);
  EXPECT_DOUBLE_EQ(trimmed_mean(samples, 0), 22);
  EXPECT_EQ(trimmed_mean(samples, 0.5), 3);
  const double ratios[] = {0.5, 2, 8};
  EXPECT_DOUBLE_EQ(geometric_mean(ratios), 2);
  const double with_zero[] = {1, 0};
  EXPECT_TRUE(std::isnan(geometric_mean(with_zero)));
  const double spread[] = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_NEAR(standard_deviation(spread), 2.138, 0.001);
}

TEST(Stats, NoSamplesGiveNan) {
  for (const double value : {minimum({}), maximum({}), median({}), mean({}), trimmed_mean({}, 0.1),
                             geometric_mean({}), standard_deviation({})}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace ibcoll
