// Pictures: the SVG writer and the charts.

#include "studies/drawing/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <utility>

#include "studies/drawing/plot_axis.h"
#include "studies/drawing/svg.h"

namespace ibcoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> labels(const ScaledAxis& axis) {
  std::vector<std::string> out;
  for (const Tick& tick : axis.ticks()) {
    if (!tick.label.empty()) out.push_back(tick.label);
  }
  return out;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Svg, EscapesAndClosesWhatWasOpened) {
  Svg svg(100, 50);
  svg.begin_group({{"class", "a\"b"}});
  svg.text(1, 2.5, "<a & b>\x01");
  const std::string picture = svg.str();
  EXPECT_THAT(picture, HasSubstr(R"(viewBox="0 0 100 50")"));
  EXPECT_THAT(picture, HasSubstr(R"(<text x="1" y="2.5">&lt;a &amp; b&gt;</text>)"));
  EXPECT_THAT(picture, HasSubstr(R"(class="a&quot;b")"));
  EXPECT_EQ(count(picture, "<g"), count(picture, "</g>"));
}

TEST(PlotAxis, LinearTicksAreRoundNumbers) {
  const ScaledAxis axis(Axis{}, 0, 4379, 5);
  EXPECT_THAT(labels(axis), ElementsAre("0", "1 000", "2 000", "3 000", "4 000", "5 000"));
  EXPECT_DOUBLE_EQ(axis.fraction(2500), 0.5);
}

TEST(PlotAxis, SizesOnALogAxis) {
  const ScaledAxis axis({.scale = Scale::kLog2, .ticks = TickLabels::kSize}, 1024, 4 << 20, 4);
  EXPECT_THAT(labels(axis), ElementsAre("1K", "8K", "64K", "512K", "4M"));
  EXPECT_DOUBLE_EQ(axis.fraction(64 << 10), 0.5);
}

TEST(PlotAxis, FewDecadesGetLabelsBetween) {
  const ScaledAxis axis({.scale = Scale::kLog10}, 3, 80, 8);
  EXPECT_THAT(labels(axis), ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  const ScaledAxis wide({.scale = Scale::kLog10}, 0.01, 2e6, 9);
  EXPECT_THAT(labels(wide), ElementsAre("0.01", "0.1", "1", "10", "100", "1 000", "10 000",
                                        "100 000", "1e6", "1e7"));
}

TEST(PlotAxis, OneValueStillHasAnAxis) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog2, Scale::kLog10}) {
    const ScaledAxis axis({.scale = scale}, 5, 5, 4);
    EXPECT_LT(axis.low(), axis.high());
    EXPECT_TRUE(std::isfinite(axis.fraction(5)));
  }
  EXPECT_LT(ScaledAxis(Axis{}, 0, 0, 4).low(), ScaledAxis(Axis{}, 0, 0, 4).high());
}

TEST(Plot, DrawsEachPointOnceAndBreaksLinesAtGaps) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Plot plot{.title = "time",
                  .x = {.label = "size"},
                  .y = {.label = "us", .scale = Scale::kLog10},
                  .series = {{.name = "", .x = {1, 2, 3, 4, 5, 6}, .y = {1, 2, nan, 3, 4, 0}}}};
  const std::string picture = plot.svg();
  EXPECT_EQ(count(picture, "<circle"), 4U);
  EXPECT_EQ(count(picture, "<polyline"), 2U);
}

/// Where the texts of a picture begin and end, as wide as their letters are at most.
std::vector<std::pair<double, double>> extents_of_texts(const std::string& picture) {
  static const std::regex kText(R"re(<text x="([-0-9.]+)"[^>]*>([^<]*)<)re");
  std::vector<std::pair<double, double>> extents;
  for (std::sregex_iterator found(picture.begin(), picture.end(), kText), end; found != end;
       ++found) {
    const std::string& element = found->str();
    if (element.find("rotate") != std::string::npos) continue;
    const double x = std::stod((*found)[1]);
    const double width = 7.0 * static_cast<double>((*found)[2].length());
    const bool middle = element.find("\"middle\"") != std::string::npos;
    const bool right = element.find("\"end\"") != std::string::npos;
    const double begin = middle ? x - width / 2 : right ? x - width : x;
    extents.emplace_back(begin, begin + width);
  }
  return extents;
}

TEST(Plot, NoLabelOfAnAxisIsCutOff) {
  for (const double last : {9.0, 12'345.0, 123'456'789.0}) {
    const Plot plot{.x = {.label = "bytes", .high = last},
                    .y = {.label = "us"},
                    .series = {{.name = "", .x = {0, last}, .y = {0, last}}}};
    const auto extents = extents_of_texts(plot.svg());
    EXPECT_GT(extents.size(), 5U);
    for (const auto& [begin, end] : extents) {
      EXPECT_GE(begin, 0) << last;
      EXPECT_LE(end, plot.width) << last;
    }
  }
}

TEST(Plot, LinesOnEachOtherAllShow) {
  const Plot plot{.x = {},
                  .y = {},
                  .series = {{.name = "", .x = {1, 2, 3, 4}, .y = {100, 200, 300, 400}},
                             {.name = "", .x = {1, 2, 3, 4}, .y = {100, 200, 300, 100}},
                             {.name = "", .x = {2, 3}, .y = {200, 300}}}};
  const std::string picture = plot.svg();
  EXPECT_EQ(count(picture, R"(stroke-dasharray="none")"), 2U);  // the first, and 3 to 4
  EXPECT_EQ(count(picture, R"(stroke-dasharray="8 8")"), 1U);
  EXPECT_EQ(count(picture, R"(stroke-dasharray="4 12")"), 1U);
  EXPECT_EQ(count(picture, R"(r="6.2")"), 2U);  // under two others
  EXPECT_EQ(count(picture, R"(r="4.6")"), 3U);  // under one
  EXPECT_EQ(count(picture, R"(r="3")"), 5U);
}

TEST(Plot, NamesSeriesAndCategories) {
  const Plot plot{.title = "a<b",
                  .x = {},
                  .y = {},
                  .categories = {"2 ranks", "4 ranks"},
                  .series = {{.name = "ring", .x = {}, .y = {1, 2}, .mark = Mark::kBar},
                             {.name = "linear",
                              .x = {},
                              .y = {3, 4},
                              .y_low = {2, 3},
                              .y_high = {4, 5},
                              .mark = Mark::kBar}}};
  const std::string picture = plot.svg();
  for (const char* text : {"a&lt;b", ">ring<", ">linear<", ">2 ranks<", ">4 ranks<"}) {
    EXPECT_THAT(picture, HasSubstr(text));
  }
  EXPECT_EQ(count(picture, "<rect"), 1U + 2 + 4);  // background, legend, bars
}

TEST(Plot, NothingToDrawSaysSo) {
  const Plot plot{.title = "t",
                  .x = {},
                  .y = {.label = "", .scale = Scale::kLog2},
                  .series = {{.name = "zero", .x = {1}, .y = {0}}}};
  EXPECT_THAT(plot.svg(), HasSubstr("no data"));
  EXPECT_THAT(plot.svg(), Not(HasSubstr("nan")));
  EXPECT_FALSE(plot.write("/nonexistent/plot.svg"));
}

}  // namespace
}  // namespace ibcoll
