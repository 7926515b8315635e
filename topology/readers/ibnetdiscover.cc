#include "engine/base/link_rate.h"
#include "topology/readers/lines.h"
#include "topology/readers/subnet.h"

namespace ibcoll::topology {
namespace {

/// Sections of ibnetdiscover's output begin with one of these; a router is a host that is not ours.
enum class Section { kNone, kSwitch, kHost, kRouter };

class IbnetdiscoverReader {
 public:
  IbnetdiscoverReader(std::string_view text, const std::string& name) : lines_(text, name) {
    subnet_.name = name;
  }

  Result<Subnet> read() {
    std::string_view line;
    while (lines_.next(line)) {
      Scanner scanner(line);
      scanner.skip_blanks();
      if (scanner.rest().empty()) {
        section_ = Section::kNone;
      } else if (scanner.rest().front() == '[') {
        IBCOLL_TRY(read_port(scanner));
      } else if (scanner.literal("switchguid=0x") || scanner.literal("caguid=0x") ||
                 scanner.literal("rtguid=0x")) {
        const auto guid = scanner.number(16, UINT64_MAX);
        if (!guid || *guid == 0) return lines_.fail("not a GUID: '{}'", line);
        guid_ = *guid;
      } else if (scanner.literal("Switch")) {
        IBCOLL_TRY(read_header(scanner, Section::kSwitch));
      } else if (scanner.literal("Ca")) {
        IBCOLL_TRY(read_header(scanner, Section::kHost));
      } else if (scanner.literal("Rt")) {
        IBCOLL_TRY(read_header(scanner, Section::kRouter));
      } else if (!known_line(scanner.rest())) {
        return lines_.fail("not a line of ibnetdiscover: '{}'", line.substr(0, 60));
      }
    }
    if (routers_ > 0) {
      return lines_.fail("the subnet has {} routers, which are not modelled", routers_);
    }
    if (subnet_.nodes.empty()) return lines_.fail("no switches and no hosts");
    return std::move(subnet_);
  }

 private:
  static bool known_line(std::string_view line) {
    for (const char* start :
         {"#", "vendid=", "devid=", "sysimgguid=", "Chassis", "DiscoverError"}) {
      if (line.rfind(start, 0) == 0) return true;
    }
    return false;
  }

  /// `Switch 36 "S-0002c903006e1430" # "leaf 1" enhanced port 0 lid 4 lmc 0`
  /// `Ca 1 "H-0002c90300a0e7d0" # "h1 HCA-1"`
  Status read_header(Scanner& scanner, Section section) {
    scanner.skip_blanks();
    const auto ports = scanner.number(10, 255);
    scanner.skip_blanks();
    const auto id = scanner.quoted();
    if (!ports || *ports == 0 || !id) {
      return lines_.fail("expected the number of ports (1 to 255) and an id in quotes");
    }
    const auto guid = guid_of(*id);
    if (!guid) return lines_.fail("'{}' holds no GUID", *id);
    if (guid_ != 0 && guid_ != *guid) {
      return lines_.fail("the id has GUID 0x{:016x}, the line before 0x{:016x}", *guid, guid_);
    }
    guid_ = 0;
    section_ = section;
    ports_ = static_cast<int>(*ports);
    SubnetNode node;
    node.guid = *guid;
    node.is_switch = section == Section::kSwitch;
    node.where = lines_.where();
    scanner.skip_blanks();
    scanner.literal("#");
    scanner.skip_blanks();
    const auto name = scanner.quoted();
    node.name = name && !name->empty() ? *name : *id;
    if (node.is_switch) {
      const auto lid = value_behind(scanner.rest(), " lid ");
      if (!lid) return lines_.fail("switch '{}' has no LID (lid N behind its name)", node.name);
      node.lid = *lid;
    }
    if (section == Section::kRouter) {
      ++routers_;
      section_ = Section::kNone;
    } else {
      subnet_.nodes.push_back(std::move(node));
    }
    return {};
  }

  /// Of a switch: `[1] "H-..."[1](portguid) # "h1" lid 2 4xEDR`; of a host:
  /// `[1](portguid) "S-..."[1] # lid 2 lmc 0 "leaf 1" lid 4 4xEDR`. "[ext 3]" may follow a port.
  Status read_port(Scanner& scanner) {
    if (section_ == Section::kNone) {
      return routers_ > 0 ? Status() : Status(lines_.fail("a port outside of a node"));
    }
    SubnetNode& node = subnet_.nodes.back();
    SubnetPort port;
    port.where = lines_.where();
    const auto number = bracketed(scanner);
    if (!number || *number < 1 || *number > ports_) {
      return lines_.fail("expected [PORT] with 1 to {} for '{}'", ports_, node.name);
    }
    port.number = *number;
    const auto guid = in_parentheses(scanner);
    port.guid = guid.value_or(0);
    scanner.skip_blanks();
    const auto peer = scanner.quoted();
    const auto peer_guid = peer ? guid_of(*peer) : std::nullopt;
    const auto peer_port = bracketed(scanner);
    if (!peer_guid || !peer_port || *peer_port < 1 || *peer_port > 255) {
      return lines_.fail("expected \"ID\"[PORT] of what port {} of '{}' is connected to",
                         port.number, node.name);
    }
    port.peer = *peer_guid;
    port.peer_port = *peer_port;
    in_parentheses(scanner);
    const size_t comment = scanner.rest().find('#');
    if (comment == std::string_view::npos) {
      return lines_.fail("port {} of '{}': nothing behind '#' tells the link's speed", port.number,
                         node.name);
    }
    const std::string_view told = scanner.rest().substr(comment);
    port.bandwidth = link_rate(speed(told));
    if (port.bandwidth == 0) {
      return lines_.fail("port {} of '{}': no speed like 4xEDR at the end", port.number, node.name);
    }
    if (!node.is_switch) {
      const auto lid = value_behind(told, " lid "), lmc = value_behind(told, " lmc ");
      if (!lid || !lmc) {
        return lines_.fail("port {} of '{}': no LID and LMC (lid N lmc M)", port.number, node.name);
      }
      port.lid = *lid;
      port.lmc = *lmc;
    }
    node.ports.push_back(std::move(port));
    return {};
  }

  /// The last word, or the one before what newer versions add in brackets.
  static std::string_view speed(std::string_view told) {
    Scanner words(told.substr(told.rfind('"') == std::string_view::npos ? 0 : told.rfind('"') + 1));
    std::string_view found;
    for (words.skip_blanks(); !words.rest().empty(); words.skip_blanks()) {
      const std::string_view word = words.word();
      if (link_rate(word) != 0) found = word;
    }
    return found;
  }

  static std::optional<uint64_t> guid_of(std::string_view id) {
    const size_t dash = id.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    Scanner scanner(id.substr(dash + 1));
    const auto guid = scanner.number(16, UINT64_MAX);
    return guid && *guid != 0 && scanner.rest().empty() ? guid : std::nullopt;
  }
  static std::optional<int> bracketed(Scanner& scanner) {
    if (!scanner.literal("[")) return std::nullopt;
    const auto number = scanner.number(10, 255);
    if (!number || !scanner.literal("]")) return std::nullopt;
    if (scanner.literal("[ext")) {
      const size_t end = scanner.rest().find(']');
      if (end == std::string_view::npos) return std::nullopt;
      scanner.literal(scanner.rest().substr(0, end + 1));
    }
    return static_cast<int>(*number);
  }
  static std::optional<uint64_t> in_parentheses(Scanner& scanner) {
    if (!scanner.literal("(")) return std::nullopt;
    const auto guid = scanner.number(16, UINT64_MAX);
    return scanner.literal(")") ? guid : std::nullopt;
  }
  static std::optional<int> value_behind(std::string_view text, std::string_view key) {
    const size_t at = text.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    Scanner scanner(text.substr(at + key.size()));
    const auto value = scanner.number(10, 65535);
    return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  }

  Lines lines_;
  Subnet subnet_;
  Section section_ = Section::kNone;
  uint64_t guid_ = 0;  ///< of the line before a section
  int ports_ = 0, routers_ = 0;
};

/// Both `dump_fts` and opensm's dump: a line "Unicast lids [..] of switch .. guid 0x.. (..):",
/// lines "0x0001 005 ..", and a line "24 valid lids dumped".
Status read_tables(std::string_view text, const std::string& name, Subnet& subnet) {
  subnet.tables_name = name;
  Lines lines(text, name);
  bool open = false;
  for (std::string_view line; lines.next(line);) {
    Scanner scanner(line);
    scanner.skip_blanks();
    if (scanner.literal("Unicast lids")) {
      if (open) return lines.fail("the table before has no end (\"N lids dumped\")");
      const size_t at = scanner.rest().find(" guid 0x");
      Scanner guid_text(at == std::string_view::npos ? "" : scanner.rest().substr(at + 8));
      const auto guid = guid_text.number(16, UINT64_MAX);
      if (!guid) return lines.fail("a table without the GUID of its switch");
      subnet.tables.push_back({*guid, {}, lines.where()});
      open = true;
      continue;
    }
    if (scanner.literal("0x")) {
      if (!open) return lines.fail("an entry outside of a table");
      const auto lid = scanner.number(16, 0xffff);
      scanner.skip_blanks();
      const bool none = scanner.literal("UNREACHABLE") || scanner.literal("---");
      const auto port = none ? std::optional<uint64_t>(255) : scanner.number(10, 255);
      if (!lid || !port) return lines.fail("expected a LID and a port: '{}'", line.substr(0, 60));
      subnet.tables.back().entries.push_back(
          {static_cast<int>(*lid), static_cast<int>(*port), lines.number()});
      continue;
    }
    const auto count = scanner.number(10, 0xffff);
    if (!count) continue;  // column headings, blank lines
    scanner.skip_blanks();
    // opensm counts what it leaves out as well.
    const bool all = scanner.literal("lids dumped");
    if (!all && !scanner.literal("valid lids dumped")) {
      return lines.fail("not a line of forwarding tables: '{}'", line.substr(0, 60));
    }
    if (!open) return lines.fail("the end of a table that did not begin");
    const size_t entries = subnet.tables.back().entries.size();
    if (all ? *count < entries : *count != entries) {
      return lines.fail("the table has {} entries, not the {} it says", entries, *count);
    }
    open = false;
  }
  if (open) return lines.fail("the last table has no end: the file is cut off");
  if (subnet.tables.empty()) return lines.fail("no forwarding tables");
  return {};
}

}  // namespace

Result<Fabric> read_ibnetdiscover(std::string_view text, const std::string& name,
                                  std::string_view tables, const std::string& tables_name,
                                  const ReadOptions& options) {
  IBCOLL_ASSIGN(Subnet subnet, IbnetdiscoverReader(text, name).read());
  if (!tables_name.empty()) IBCOLL_TRY(read_tables(tables, tables_name, subnet));
  return to_fabric(std::move(subnet), options);
}

}  // namespace ibcoll::topology
