#pragma once
/// One line on standard error that says how far a tool is; nothing where that is no terminal.

#include <string>

namespace ibcoll::tools {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether anybody sees it: making the text may be worth sparing.
  bool visible() const { return terminal_; }
  /// Puts the text in place of the one before it.
  void show(const std::string& text);
  void clear();

 private:
  const bool terminal_;
  bool shown_ = false;
};

}  // namespace ibcoll::tools
