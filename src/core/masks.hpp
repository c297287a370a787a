// Lanes named by bits, and the stop flag: what all kernels use.
#pragma once

#include "kernels.hpp"

namespace predgap::PREDGAP_ISA {
namespace {

struct MaskTable {
    alignas(64) double lane[256][kLanes];
    constexpr MaskTable() : lane{} {
        for (int bits = 0; bits < 256; ++bits)
            for (int i = 0; i < kLanes; ++i) lane[bits][i] = static_cast<double>((bits >> i) & 1);
    }
};
constexpr MaskTable kMask;

// The lanes named by bits as 1.0, the others as 0.0.
PREDGAP_INLINE Lanes lanes_of(LaneBits bits) { return *lanes(kMask.lane[bits]); }

PREDGAP_INLINE bool stopped(const Block& b) { return b.stop->load(std::memory_order_relaxed); }

}  // namespace
}  // namespace predgap::PREDGAP_ISA
