#include "studies/drawing/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "engine/base/json_lines.h"

namespace ibcoll {
namespace {

constexpr std::string_view kStyleSheet =
    R"(svg{font:12px system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
.bg{fill:#fff}.fg{fill:#1f2328}.dim{fill:#59636e}
.halo{stroke:#fff;stroke-width:3.5px;stroke-linejoin:round;paint-order:stroke}
.mark{color:#1f2328}.axis{stroke:#818b98;fill:none}.grid{stroke:#e4e8ec;fill:none}
.s0{color:#0072b2}.s1{color:#d55e00}.s2{color:#009e73}.s3{color:#aa4499}
.s4{color:#e69f00}.s5{color:#56b4e9}.s6{color:#882255}.s7{color:#7a7a00}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}.fg{fill:#e6edf3}.dim{fill:#9198a1}.halo{stroke:#0d1117}
.mark{color:#e6edf3}.axis{stroke:#656c76}.grid{stroke:#262c34}
.s0{color:#4aa8e0}.s1{color:#f08a4b}.s2{color:#2fc79a}.s3{color:#d98cd0}
.s4{color:#f2b632}.s5{color:#8fd0f5}.s6{color:#d0698f}.s7{color:#bdbd4a}}
)";

/// Two decimals without trailing zeros: pictures stay small.
std::string number(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string point_list(std::span<const Svg::Point> points) {
  std::string list;
  for (const Svg::Point& point : points) {
    if (!list.empty()) list += ' ';
    list += number(point.x) + ',' + number(point.y);
  }
  return fmt::format(R"( points="{}")", list);
}

std::string attribute_list(Svg::Attributes attributes) {
  std::string list;
  for (const auto& [name, value] : attributes) {
    list += fmt::format(R"( {}="{}")", name, xml_escape(value));
  }
  return list;
}

}  // namespace

std::string xml_escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') escaped += c;
    }
  }
  return escaped;
}

Svg::Svg(double width, double height)
    : head_(fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" )"
                        R"(viewBox="0 0 {0} {1}">)",
                        number(width), number(height))) {
  rect(0, 0, width, height, {{"class", "bg"}});
}

void Svg::element(std::string_view name, std::string_view geometry, Attributes attributes,
                  std::string_view content) {
  body_ += fmt::format("<{}{}{}", name, geometry, attribute_list(attributes));
  if (content.empty()) {
    body_ += "/>\n";
  } else {
    body_ += fmt::format(">{}</{}>\n", xml_escape(content), name);
  }
}

void Svg::rect(double x, double y, double width, double height, Attributes attributes) {
  element("rect",
          fmt::format(R"( x="{}" y="{}" width="{}" height="{}")", number(x), number(y),
                      number(width), number(height)),
          attributes);
}

void Svg::circle(double x, double y, double radius, Attributes attributes) {
  element("circle", fmt::format(R"( cx="{}" cy="{}" r="{}")", number(x), number(y), number(radius)),
          attributes);
}

void Svg::line(double x1, double y1, double x2, double y2, Attributes attributes) {
  element("line",
          fmt::format(R"( x1="{}" y1="{}" x2="{}" y2="{}")", number(x1), number(y1), number(x2),
                      number(y2)),
          attributes);
}

void Svg::polyline(std::span<const Point> points, Attributes attributes) {
  element("polyline", point_list(points), attributes);
}

void Svg::polygon(std::span<const Point> points, Attributes attributes) {
  element("polygon", point_list(points), attributes);
}

void Svg::text(double x, double y, std::string_view content, Attributes attributes) {
  if (content.empty()) return;
  element("text", fmt::format(R"( x="{}" y="{}")", number(x), number(y)), attributes, content);
}

void Svg::begin_group(Attributes attributes) {
  body_ += fmt::format("<g{}>\n", attribute_list(attributes));
  ++open_groups_;
}

void Svg::end_group() {
  if (open_groups_ == 0) return;
  --open_groups_;
  body_ += "</g>\n";
}

void Svg::tooltip(std::string_view content) { element("title", "", {}, content); }

void Svg::style(std::string_view css) { css_ += css; }

std::string Svg::str() const {
  std::string document =
      fmt::format("{}\n<style>{}{}</style>\n{}", head_, kStyleSheet, xml_escape(css_), body_);
  for (int group = 0; group < open_groups_; ++group) document += "</g>\n";
  return document + "</svg>\n";
}

Status Svg::write(const std::string& path) const { return write_file(path, str()); }

double text_width(std::string_view text, double font_size) {
  double ems = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // inside a UTF-8 sequence
    const bool narrow = std::string_view("iljtfrI.,:;'|()[] ").find(c) != std::string_view::npos;
    const bool wide = std::string_view("mwMW@%").find(c) != std::string_view::npos;
    ems += narrow ? 0.33 : wide ? 0.86 : c >= 'A' && c <= 'Z' ? 0.68 : 0.57;
  }
  return ems * font_size;
}

std::string_view series_class(size_t index) {
  static constexpr std::array<std::string_view, 8> kClasses = {"s0", "s1", "s2", "s3",
                                                               "s4", "s5", "s6", "s7"};
  return kClasses[index % kClasses.size()];
}

std::string_view style_sheet() { return kStyleSheet; }

}  // namespace ibcoll
