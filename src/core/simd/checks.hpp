// Checks of the program itself. Where PREDGAP_CHECKED is defined, as in builds with sanitizers and in debug
// builds, indices and room are looked at; where they fail, the process ends with a message.
//
// Kernels call these functions. They are compiled once, without the flags of any instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace predgap {

#ifdef PREDGAP_CHECKED
constexpr bool kIsChecked = true;
#else
constexpr bool kIsChecked = false;
#endif

// End the process. A switch over sizes calls the first one for a size that it has no case for.
[[noreturn]] void unreachable_size(const char* where, std::int64_t size);
[[noreturn]] void fail_index(std::int64_t index, std::int64_t size);
[[noreturn]] void fail_room(std::int64_t asked, std::int64_t left);

// Tell AddressSanitizer which bytes may be used. In other builds they do nothing.
void allow_bytes(const void* begin, std::size_t n);
void forbid_bytes(const void* begin, std::size_t n);

}  // namespace predgap
