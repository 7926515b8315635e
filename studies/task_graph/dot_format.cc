#include <algorithm>
#include <cctype>
#include <istream>
#include <iterator>
#include <ostream>
#include <string>
#include <unordered_map>

#include "studies/task_graph/formats.h"
#include "studies/task_graph/lines.h"

namespace ibcoll::task_graph {

namespace {

/// Reads the little of the DOT language that task graphs need. What would change which edges or
/// weights there are, and isn't part of it, is refused.
class DotReader {
 public:
  explicit DotReader(std::istream& in)
      : text_(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()) {}

  Result<TaskGraph> read() {
    IBCOLL_ASSIGN(Token token, next());
    if (token.keyword("strict")) {
      IBCOLL_ASSIGN(token, next());
    }
    if (!token.keyword("digraph"))
      return wrong(fmt::format("expected 'digraph', found '{}'", token.text));
    IBCOLL_ASSIGN(token, next());
    if (token.is_name()) {
      IBCOLL_ASSIGN(token, next());
    }
    if (!token.sign("{")) return wrong(fmt::format("expected '{{', found '{}'", token.text));
    for (;;) {
      IBCOLL_ASSIGN(token, next());
      if (token.sign("}")) break;
      if (token.kind == Token::kEnd) return wrong("the file ends inside the graph");
      if (!token.sign(";")) IBCOLL_TRY(statement(token));
    }
    IBCOLL_ASSIGN(token, next());
    if (token.kind != Token::kEnd)
      return wrong(fmt::format("'{}' behind the end of the graph", token.text));
    return TaskGraph::create(std::move(weights_), edges_, edge_lines_, names_);
  }

 private:
  struct Token {
    enum Kind { kEnd, kSign, kWord, kQuoted } kind = kEnd;
    std::string text;

    bool is_name() const { return kind == kWord || kind == kQuoted; }
    bool sign(std::string_view wanted) const { return kind == kSign && text == wanted; }
    /// DOT's keywords are those in any case, without quotes.
    bool keyword(std::string_view wanted) const {
      return kind == kWord && std::ranges::equal(text, wanted, [](char a, char b) {
               return std::tolower(static_cast<unsigned char>(a)) == b;
             });
    }
  };

  tl::unexpected<Error> wrong(const std::string& reason) const {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", line_, reason);
  }
  bool stands_here(std::string_view text) const {
    return text_.compare(at_, text.size(), text) == 0;
  }

  Result<Token> next() {
    skip_blank();
    if (at_ >= text_.size()) return Token{};
    if (text_[at_] == '"') return quoted();
    if (text_[at_] == '<') return markup();
    for (const char* sign : {"->", "--"}) {
      if (!stands_here(sign)) continue;
      at_ += 2;
      return Token{Token::kSign, sign};
    }
    Token token{Token::kWord, {}};
    while (at_ < text_.size() && in_word()) token.text += text_[at_++];
    if (token.text.empty()) token = {Token::kSign, std::string(1, text_[at_++])};
    return token;
  }

  /// Letters are also all bytes of other alphabets, and hyphens, which DOT would want in quotes.
  bool in_word() const {
    const auto c = static_cast<unsigned char>(text_[at_]);
    return std::isalnum(c) != 0 || c >= 0x80 || c == '_' || c == '.' ||
           (c == '-' && !stands_here("->") && !stands_here("--"));
  }

  Result<Token> quoted() {
    Token token{Token::kQuoted, {}};
    const int line = line_;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (stands_here("\\\n")) {  // a name goes on in the next line
        ++line_, ++at_;
        continue;
      }
      if (stands_here("\\\\")) {  // which does not escape a quote behind it
        token.text += "\\\\";
        ++at_;
        continue;
      }
      if (stands_here("\\\"")) ++at_;
      line_ += text_[at_] == '\n' ? 1 : 0;
      token.text += text_[at_];
    }
    if (at_ >= text_.size()) {
      line_ = line;
      return wrong("a quote is not closed");
    }
    ++at_;
    return token;
  }

  /// What stands between < and >, in which they come in pairs.
  Result<Token> markup() {
    Token token{Token::kQuoted, {}};
    const int line = line_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      depth += text_[at_] == '<' ? 1 : text_[at_] == '>' ? -1 : 0;
      line_ += text_[at_] == '\n' ? 1 : 0;
      token.text += text_[at_];
      if (depth > 0) continue;
      ++at_;
      return token;
    }
    line_ = line;
    return wrong("a '<' is not closed");
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' || stands_here("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (stands_here("/*")) {
        const size_t end = std::min(text_.find("*/", at_), text_.size());
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<int64_t>(at_),
                                             text_.begin() + static_cast<int64_t>(end), '\n'));
        at_ = std::min(end + 2, text_.size());
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        line_ += c == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<Token> peek() {
    const size_t at = at_;
    const int line = line_;
    Result<Token> token = next();
    if (token) {
      at_ = at;
      line_ = line;
    }
    return token;
  }

  /// A node by its name, with the port behind it if there is one.
  Result<TaskId> node(const Token& token) {
    if (token.sign("{") || token.keyword("subgraph")) return wrong("subgraphs are not supported");
    if (!token.is_name()) return wrong(fmt::format("unexpected '{}'", token.text));
    const auto [found, made] = ids_.emplace(token.text, static_cast<TaskId>(weights_.size()));
    if (made) {
      weights_.push_back(usual_weight_);
      names_.push_back(found->first);
    }
    const TaskId id = found->second;
    for (;;) {
      IBCOLL_ASSIGN(Token behind, peek());
      if (!behind.sign(":")) return id;
      IBCOLL_TRY(next());
      IBCOLL_ASSIGN(behind, next());
      if (!behind.is_name()) return wrong("a ':' without a port");
    }
  }

  Status statement(const Token& first) {
    IBCOLL_ASSIGN(Token token, peek());
    if (first.is_name() && token.sign("=")) {  // an attribute of the graph: name = value
      IBCOLL_TRY(next());
      IBCOLL_ASSIGN(token, next());
      if (!token.is_name()) return wrong(fmt::format("'{}' has no value", first.text));
      return {};
    }
    if (first.keyword("node")) return attributes(&usual_weight_);
    if (first.keyword("edge") || first.keyword("graph")) return attributes(nullptr);
    IBCOLL_ASSIGN(TaskId at, node(first));
    IBCOLL_ASSIGN(token, peek());
    bool edge = false;
    for (; token.sign("->"); edge = true) {
      IBCOLL_TRY(next());
      IBCOLL_ASSIGN(token, next());
      if (token.kind == Token::kEnd || token.sign(";") || token.sign("}") || token.sign("["))
        return wrong("an edge without an end");
      IBCOLL_ASSIGN(const TaskId end, node(token));
      edges_.push_back({at, end});
      edge_lines_.push_back(line_);
      at = end;
      IBCOLL_ASSIGN(token, peek());
    }
    if (token.sign("--")) return wrong("an undirected edge in a digraph");
    return attributes(edge ? nullptr : &weights_[at]);
  }

  /// "[name=value, ..]" as often as it stands here; takes the weight if asked for.
  Status attributes(Time* weight) {
    for (;;) {
      IBCOLL_ASSIGN(Token token, peek());
      if (!token.sign("[")) return {};
      IBCOLL_TRY(next());
      for (;;) {
        IBCOLL_ASSIGN(const Token name, next());
        if (name.sign("]")) break;
        if (name.sign(",") || name.sign(";")) continue;
        if (name.kind == Token::kEnd) return wrong("the attributes are not closed");
        if (!name.is_name()) return wrong(fmt::format("unexpected '{}'", name.text));
        IBCOLL_ASSIGN(token, peek());
        if (!token.sign("=")) continue;
        IBCOLL_TRY(next());
        IBCOLL_ASSIGN(token, next());
        if (!token.is_name()) return wrong(fmt::format("'{}' has no value", name.text));
        if (name.text != "weight" || weight == nullptr) continue;
        IBCOLL_ASSIGN(*weight, line_number(token.text, 0, kMaxTotalWork, "weight", line_));
      }
    }
  }

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  std::unordered_map<std::string, TaskId> ids_;
  std::vector<std::string_view> names_;  ///< by task, in ids_
  std::vector<Time> weights_;
  Time usual_weight_ = 1;
  std::vector<Edge> edges_;
  std::vector<int> edge_lines_;
};

}  // namespace

Result<TaskGraph> read_dot(std::istream& in) { return DotReader(in).read(); }

void write_dot(const TaskGraph& graph, std::ostream& out) {
  out << "digraph tasks {\n";
  for (TaskId task = 0; task < graph.size(); ++task)
    out << "  " << task << " [weight=" << graph.weight(task) << "];\n";
  for (TaskId task = 0; task < graph.size(); ++task) {
    for (TaskId after : graph.successors(task)) out << "  " << task << " -> " << after << ";\n";
  }
  out << "}\n";
}

}  // namespace ibcoll::task_graph
