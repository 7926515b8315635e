#pragma once
/// A small writer of SVG pictures.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/result.h"

namespace ibcoll {

/// Text with the characters that XML reserves written as entities; control characters that XML 1.0
/// cannot hold are dropped.
std::string xml_escape(std::string_view text);

/// A picture of `width` x `height` units, written element by element, later ones on top. All
/// coordinates are in these units, from the top left corner down. Colours that suit light and dark
/// backgrounds come from the classes of style_sheet().
class Svg {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  struct Point {
    double x, y;
  };

  /// Starts with the style sheet and a background over the whole picture.
  Svg(double width, double height);

  void rect(double x, double y, double width, double height, Attributes attributes = {});
  void circle(double x, double y, double radius, Attributes attributes = {});
  void line(double x1, double y1, double x2, double y2, Attributes attributes = {});
  void polyline(std::span<const Point> points, Attributes attributes = {});
  void polygon(std::span<const Point> points, Attributes attributes = {});
  /// Text at its baseline; the attribute "text-anchor" (start, middle, end) says which part of it
  /// is at x. Not wrapped: text_width() tells how wide it is.
  void text(double x, double y, std::string_view content, Attributes attributes = {});

  /// What follows, up to end_group(), shares the attributes.
  void begin_group(Attributes attributes = {});
  void end_group();
  /// Shown by viewers when the pointer rests on the group just begun.
  void tooltip(std::string_view content);
  /// Adds rules to the style sheet.
  void style(std::string_view css);

  /// The whole document. Groups still open are closed.
  std::string str() const;
  /// Writes the document to a file; fails with the path and the reason.
  Status write(const std::string& path) const;

 private:
  void element(std::string_view name, std::string_view geometry, Attributes attributes,
               std::string_view content = {});

  std::string head_;
  std::string css_;
  std::string body_;
  int open_groups_ = 0;
};

/// How wide a text is, about, in the font of the style sheet at `font_size`.
double text_width(std::string_view text, double font_size);

/// The class whose `currentColor` is the colour of series `index`; the eight colours are told apart
/// with any kind of colour blindness, and repeat.
std::string_view series_class(size_t index);

/// CSS classes: `fg` (text), `mark` (as `currentColor`), `dim` (secondary text), `axis` (strokes),
/// `grid`, `bg` (background fill), `halo` (beside `fg` or `dim`: an edge of the background's colour
/// that keeps text readable over lines) and `s0` to `s7` (series: use fill="currentColor" or
/// stroke="currentColor").
std::string_view style_sheet();

}  // namespace ibcoll
