// What users and programs say, as messages repeat it.

#include "engine/base/quote.h"

#include <gtest/gtest.h>

namespace ibcoll {
namespace {

TEST(Quote, KeepsTextAndWritesWhatIsNoneAsNumbers) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("größer, 1 € \U0001f600"), "größer, 1 € \U0001f600");
  EXPECT_EQ(printable("two\nlines\r\n"), "two lines\\x0d ");
  EXPECT_EQ(printable("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(printable("a\u2028b\u2029c"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9c");
}

TEST(Quote, WritesBytesThatAreNoUtf8AsNumbers) {
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("M\xfcller"), "M\\xfcller");
  EXPECT_EQ(printable("cut \xe2\x82"), "cut \\xe2\\x82");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80") << "longer than need be";
  EXPECT_EQ(printable("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a pair";
  EXPECT_EQ(printable("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past the last";
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xf4\x8f\xbf\xbd"), "\xf4\x8f\xbf\xbd");
}

TEST(Quote, CutsWordsAndTextsBetweenCharacters) {
  const std::string longest(kMaxQuoted, 'x');
  EXPECT_EQ(printable(longest + " y"), longest + " y");
  EXPECT_EQ(printable(longest + "x y"), longest + "... y");
  EXPECT_EQ(printable(longest.substr(1) + "ü y"), longest.substr(1) + "... y");
  EXPECT_EQ(cut_to("größer", 10), "größer");
  EXPECT_EQ(cut_to("größer", 4), "grö");
  EXPECT_EQ(cut_to("größer", 3), "gr");
  EXPECT_EQ(cut_to("größer", 0), "");
}

}  // namespace
}  // namespace ibcoll
