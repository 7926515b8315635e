#include <tinyxml2.h>

#include <algorithm>
#include <array>

#include "engine/base/units.h"
#include "studies/formats/msccl.h"

namespace ibcoll::formats {
namespace {

using tinyxml2::XMLElement;

constexpr int64_t kMostGpus = 1024;  // verify() takes memory in proportion to their square
constexpr int64_t kMostChunks = 1 << 20;
constexpr int64_t kMostChunksTogether = 1 << 24;  // a gigabyte or two while they are followed
constexpr std::array<std::string_view, 9> kTypes{"s",   "r",   "cpy",  "re", "rcs",
                                                 "rrs", "rrc", "rrcs", "nop"};

/// Reads attributes of one element, and says where it stands.
class Attributes {
 public:
  explicit Attributes(const XMLElement& element) : element_(element) {}

  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInput, "line {}, <{}>: {}", element_.GetLineNum(), element_.Name(),
                fmt::format(format, std::forward<Args>(args)...));
  }
  Result<std::string> text(const char* name) const {
    const char* const value = element_.Attribute(name);
    if (value == nullptr) return bad("'{}' is missing", name);
    return std::string(value);
  }
  Result<int64_t> integer(const char* name, int64_t low, int64_t high) const {
    IBCOLL_ASSIGN(const std::string value, text(name));
    auto number = parse_integer(value, low, high, name);
    if (!number) return bad("{}", number.error().message);
    return number;
  }
  Result<int64_t> integer_or(const char* name, int64_t low, int64_t high, int64_t other) const {
    if (element_.Attribute(name) == nullptr) return other;
    return integer(name, low, high);
  }

 private:
  const XMLElement& element_;
};

/// The elements of that name in another, which has none of other names.
Result<std::vector<const XMLElement*>> children(const XMLElement& parent, const char* name) {
  std::vector<const XMLElement*> all;
  for (const XMLElement* child = parent.FirstChildElement(); child != nullptr;
       child = child->NextSiblingElement()) {
    if (std::string_view(child->Name()) != name)
      return Attributes(*child).bad("there should be a <{}>", name);
    all.push_back(child);
  }
  return all;
}

Result<MscclPlace> read_place(const Attributes& step, const char* buffer, const char* first) {
  IBCOLL_ASSIGN(const std::string name, step.text(buffer));
  MscclPlace place;
  if (name == "i") {
    place.buffer = MscclBuffer::kInput;
  } else if (name == "o") {
    place.buffer = MscclBuffer::kOutput;
  } else if (name == "s") {
    place.buffer = MscclBuffer::kScratch;
  } else {
    return step.bad("{} is '{}': one of i, o, s", buffer, name);
  }
  IBCOLL_ASSIGN(const int64_t at, step.integer(first, 0, kMostChunks - 1));
  place.first = static_cast<uint32_t>(at);
  return place;
}

Result<MscclStep> read_step(const XMLElement& element, size_t number) {
  const Attributes given(element);
  MscclStep step;
  IBCOLL_TRY(given.integer("s", static_cast<int64_t>(number), static_cast<int64_t>(number)));
  IBCOLL_ASSIGN(step.type, given.text("type"));
  if (std::find(kTypes.begin(), kTypes.end(), step.type) == kTypes.end()) {
    return given.bad("unknown type '{}': one of s, r, cpy, re, rcs, rrs, rrc, rrcs, nop",
                     step.type);
  }
  if (step.type != "nop") {
    IBCOLL_ASSIGN(const int64_t count, given.integer("cnt", 1, kMostChunks));
    step.count = static_cast<uint32_t>(count);
  }
  if (step.reads()) {
    IBCOLL_ASSIGN(step.src, read_place(given, "srcbuf", "srcoff"));
  }
  if (step.stores()) {
    IBCOLL_ASSIGN(step.dst, read_place(given, "dstbuf", "dstoff"));
  }
  IBCOLL_ASSIGN(step.after_block, given.integer_or("depid", -1, INT32_MAX, -1));
  IBCOLL_ASSIGN(step.after_step, given.integer_or("deps", -1, INT32_MAX, -1));
  if (step.after_block < 0 || step.after_step < 0) step.after_block = step.after_step = -1;
  IBCOLL_ASSIGN(const int64_t announces, given.integer_or("hasdep", 0, 1, 0));
  step.announces = announces == 1;
  IBCOLL_ASSIGN(step.order, given.integer_or("ibcoll_order", 0, INT32_MAX, MscclStep::kUnknown));
  IBCOLL_ASSIGN(step.number, given.integer_or("ibcoll_step", 0, INT32_MAX, MscclStep::kUnknown));
  return step;
}

Result<MscclBlock> read_block(const XMLElement& element, int64_t me, int64_t gpus) {
  const Attributes given(element);
  MscclBlock block;
  IBCOLL_ASSIGN(block.id, given.integer("id", 0, INT32_MAX));
  IBCOLL_ASSIGN(block.send, given.integer("send", -1, gpus - 1));
  IBCOLL_ASSIGN(block.recv, given.integer("recv", -1, gpus - 1));
  IBCOLL_ASSIGN(block.channel, given.integer_or("chan", -1, INT32_MAX, 0));
  if (block.send == me || block.recv == me) return given.bad("a GPU is no peer of its own");
  IBCOLL_ASSIGN(const auto steps, children(element, "step"));
  for (const XMLElement* step : steps) {
    IBCOLL_ASSIGN(MscclStep read, read_step(*step, block.steps.size()));
    if (read.sends() && block.send < 0)
      return Attributes(*step).bad("its threadblock sends to nobody");
    if (read.receives() && block.recv < 0)
      return Attributes(*step).bad("its threadblock receives from nobody");
    block.steps.push_back(std::move(read));
  }
  return block;
}

Result<MscclGpu> read_gpu(const XMLElement& element, int64_t number, int64_t gpus) {
  const Attributes given(element);
  MscclGpu gpu;
  IBCOLL_TRY(given.integer("id", number, number));
  const auto chunks = [&](const char* name, uint32_t& to) -> Status {
    IBCOLL_ASSIGN(const int64_t count, given.integer_or(name, 0, kMostChunks, 0));
    to = static_cast<uint32_t>(count);
    return {};
  };
  IBCOLL_TRY(chunks("i_chunks", gpu.input_chunks));
  IBCOLL_TRY(chunks("o_chunks", gpu.output_chunks));
  IBCOLL_TRY(chunks("s_chunks", gpu.scratch_chunks));
  IBCOLL_ASSIGN(const auto blocks, children(element, "tb"));
  for (const XMLElement* block : blocks) {
    IBCOLL_ASSIGN(gpu.blocks.emplace_back(), read_block(*block, number, gpus));
    const int64_t id = gpu.blocks.back().id;
    const auto same = [&](const MscclBlock& other) { return other.id == id; };
    if (std::count_if(gpu.blocks.begin(), gpu.blocks.end(), same) > 1)
      return Attributes(*block).bad("there is another threadblock {}", id);
  }
  return gpu;
}

const char* name_of(MscclBuffer buffer) {
  switch (buffer) {
    case MscclBuffer::kInput:
      return "i";
    case MscclBuffer::kOutput:
      return "o";
    case MscclBuffer::kScratch:
      break;
  }
  return "s";
}

}  // namespace

std::string describe_step(const MscclProgram& program, size_t rank, size_t block, size_t step) {
  const MscclBlock& of = program.gpus[rank].blocks[block];
  return fmt::format("rank {}, threadblock {}, step {} ({})", rank, of.id, step,
                     of.steps[step].type);
}

Result<MscclProgram> parse_msccl(std::string_view text) {
  tinyxml2::XMLDocument document;
  if (document.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS) {
    return fail(ErrorCode::kInput, "line {}: is no XML ({})", document.ErrorLineNum(),
                tinyxml2::XMLDocument::ErrorIDToName(document.ErrorID()));
  }
  const XMLElement* const root = document.RootElement();
  if (root == nullptr || std::string_view(root->Name()) != "algo")
    return fail(ErrorCode::kInput, "is no MSCCL program: there is no <algo>");
  const Attributes given(*root);
  MscclProgram program;
  IBCOLL_ASSIGN(program.name, given.text("name"));
  IBCOLL_ASSIGN(program.collective, given.text("coll"));
  IBCOLL_ASSIGN(const int64_t gpus, given.integer("ngpus", 1, kMostGpus));
  IBCOLL_ASSIGN(const int64_t chunks, given.integer("nchunksperloop", 1, kMostChunks));
  program.chunks = static_cast<uint32_t>(chunks);
  if (gpus * chunks > kMostChunksTogether) {
    return given.bad("{} chunks on each of {} GPUs are more than {} in all", chunks, gpus,
                     kMostChunksTogether);
  }
  IBCOLL_ASSIGN(const int64_t in_place, given.integer_or("inplace", 0, 1, 0));
  IBCOLL_ASSIGN(const int64_t apart, given.integer_or("outofplace", 0, 1, 0));
  IBCOLL_ASSIGN(program.root, given.integer_or("root", 0, gpus - 1, -1));
  IBCOLL_ASSIGN(const auto elements, children(*root, "gpu"));
  if (static_cast<int64_t>(elements.size()) != gpus)
    return given.bad("has {} GPUs, but 'ngpus' is {}", elements.size(), gpus);
  // They may stand in any order.
  std::vector<const XMLElement*> by_id(elements.size());
  for (const XMLElement* element : elements) {
    IBCOLL_ASSIGN(const int64_t id, Attributes(*element).integer("id", 0, gpus - 1));
    if (by_id[id] != nullptr) return Attributes(*element).bad("there is another GPU {}", id);
    by_id[id] = element;
  }
  bool has_output = false, has_input = false;
  for (int64_t id = 0; id < gpus; ++id) {
    IBCOLL_ASSIGN(program.gpus.emplace_back(), read_gpu(*by_id[id], id, gpus));
    has_output |= program.gpus.back().output_chunks > 0;
    has_input |= program.gpus.back().input_chunks > 0;
  }
  // What goes both ways is read as if it could be told apart, unless it needs to be in place.
  program.in_place = in_place == 1 && (apart == 0 || !has_output || !has_input);
  return program;
}

std::string to_text(const MscclProgram& program) {
  tinyxml2::XMLPrinter printer;
  printer.OpenElement("algo");
  printer.PushAttribute("name", program.name.c_str());
  printer.PushAttribute("proto", "Simple");
  int64_t channels = 1;
  for (const MscclGpu& gpu : program.gpus) {
    for (const MscclBlock& block : gpu.blocks) channels = std::max(channels, block.channel + 1);
  }
  printer.PushAttribute("nchannels", channels);
  printer.PushAttribute("nchunksperloop", program.chunks);
  printer.PushAttribute("ngpus", static_cast<int64_t>(program.gpus.size()));
  printer.PushAttribute("coll", program.collective.c_str());
  printer.PushAttribute("inplace", program.in_place ? 1 : 0);
  printer.PushAttribute("outofplace", program.in_place ? 0 : 1);
  printer.PushAttribute("minBytes", 0);
  printer.PushAttribute("maxBytes", 0);
  if (program.root >= 0) printer.PushAttribute("root", program.root);
  for (size_t rank = 0; rank < program.gpus.size(); ++rank) {
    const MscclGpu& gpu = program.gpus[rank];
    printer.OpenElement("gpu");
    printer.PushAttribute("id", static_cast<int64_t>(rank));
    printer.PushAttribute("i_chunks", gpu.input_chunks);
    printer.PushAttribute("o_chunks", gpu.output_chunks);
    printer.PushAttribute("s_chunks", gpu.scratch_chunks);
    for (const MscclBlock& block : gpu.blocks) {
      printer.OpenElement("tb");
      printer.PushAttribute("id", block.id);
      printer.PushAttribute("send", block.send);
      printer.PushAttribute("recv", block.recv);
      printer.PushAttribute("chan", block.channel);
      for (size_t i = 0; i < block.steps.size(); ++i) {
        const MscclStep& step = block.steps[i];
        printer.OpenElement("step");
        printer.PushAttribute("s", static_cast<int64_t>(i));
        printer.PushAttribute("type", step.type.c_str());
        printer.PushAttribute("srcbuf", name_of(step.src.buffer));
        printer.PushAttribute("srcoff", step.src.first);
        printer.PushAttribute("dstbuf", name_of(step.dst.buffer));
        printer.PushAttribute("dstoff", step.dst.first);
        printer.PushAttribute("cnt", step.count);
        printer.PushAttribute("depid", step.after_block);
        printer.PushAttribute("deps", step.after_step);
        printer.PushAttribute("hasdep", step.announces ? 1 : 0);
        if (step.order >= 0) printer.PushAttribute("ibcoll_order", step.order);
        if (step.number >= 0) printer.PushAttribute("ibcoll_step", step.number);
        printer.CloseElement();
      }
      printer.CloseElement();
    }
    printer.CloseElement();
  }
  printer.CloseElement();
  return printer.CStr();
}

}  // namespace ibcoll::formats
