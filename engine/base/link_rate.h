#pragma once
/// Data rates of InfiniBand links: what is left of the wires' rate after encoding (8b/10b up to
/// QDR, 64b/66b up to EDR, 256b/257b and error correction from HDR on) and before the headers of
/// packets, as the InfiniBand Architecture Specification (volume 2) has them: an EDR link of four
/// lanes carries 100 Gbit/s, on wires of 103.125. Verbs describe ports of Ethernet in the same
/// words.

#include <cstdint>
#include <string_view>

namespace ibcoll {

/// Bytes a second of a link as ibnetdiscover calls it, lanes and speed: "4xEDR"; 0 if it is no
/// such name.
double link_rate(std::string_view name);

/// Bytes a second by the codes of the specification's PortInfo as verbs has them, a bit each:
/// LinkWidthActive (1, 2, 4, 8, 16: 1, 4, 8, 12 and 2 lanes), and LinkSpeedActive (1, 2, 4: SDR,
/// DDR, QDR; 8: FDR10) with LinkSpeedExtActive above it (16, 32, ...: FDR, EDR, HDR, NDR, XDR). 0
/// if there is no such code.
double link_rate(uint32_t width_code, uint32_t speed_code);

}  // namespace ibcoll
