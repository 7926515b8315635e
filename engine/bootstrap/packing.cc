#include "engine/bootstrap/packing.h"

#include <zlib.h>

namespace ibcoll {
namespace {

const Bytef* data(std::span<const std::byte> bytes) {
  return reinterpret_cast<const Bytef*>(bytes.data());
}

}  // namespace

std::optional<std::vector<std::byte>> pack(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::vector<std::byte>();
  uLongf length = compressBound(bytes.size());
  std::vector<std::byte> packed(length);
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &length, data(bytes), bytes.size(),
                Z_BEST_SPEED) != Z_OK)
    return std::nullopt;
  packed.resize(length);
  packed.shrink_to_fit();
  return packed;
}

bool unpack(std::span<const std::byte> packed, std::span<std::byte> bytes) {
  if (bytes.empty()) return packed.empty();
  uLongf length = bytes.size();
  uLong taken = packed.size();
  return uncompress2(reinterpret_cast<Bytef*>(bytes.data()), &length, data(packed), &taken) ==
             Z_OK &&
         length == bytes.size() && taken == packed.size();
}

}  // namespace ibcoll
