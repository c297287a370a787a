// Units: the features, cut into disjoint sets that move at the same time and are ranked as one.
#pragma once

#include <cstdint>

#include "simd/buffer.hpp"

namespace predgap {

// Features that lie in a row in memory, such as those of a unit.
struct FeatureList {
    const std::int32_t *first, *last;
    PREDGAP_INLINE const std::int32_t* begin() const { return first; }
    PREDGAP_INLINE const std::int32_t* end() const { return last; }
};

// True if the flag of one of the features is set.
template <class Flags>
bool any_of(const FeatureList& features, const Flags& flag) {
    for (const auto q : features)
        if (flag[q]) return true;
    return false;
}

// The accessors that kernels use are always inlined, like those of Buffer.
class Units {
public:
    // Makes each feature a unit of its own.
    explicit Units(std::int32_t n_features) : begin_(n_features + 1), member_(n_features), of_(n_features) {
        for (std::int32_t q = 0; q <= n_features; ++q) begin_[q] = q;
        for (std::int32_t q = 0; q < n_features; ++q) member_[q] = of_[q] = q;
    }
    // Unit u has the features member[begin[u]], ..., member[begin[u + 1] - 1], at least one; each feature is
    // in one unit.
    Units(Buffer<std::int32_t> begin, Buffer<std::int32_t> member)
        : begin_(std::move(begin)), member_(std::move(member)), of_(member_.size()) {
        for (std::int32_t u = 0; u < size(); ++u)
            for (const auto q : members(u)) of_[q] = u;
    }

    std::int32_t n_features() const { return static_cast<std::int32_t>(of_.size()); }
    PREDGAP_INLINE std::int32_t size() const { return static_cast<std::int32_t>(begin_.size()) - 1; }
    PREDGAP_INLINE FeatureList members(std::int32_t u) const {
        return {member_.data() + begin_[u], member_.data() + begin_[u + 1]};
    }
    PREDGAP_INLINE std::int32_t of(std::int32_t q) const { return of_[q]; }
    const std::int32_t* of_features() const { return of_.data(); }  // (n_features)
    // True if this unit, or every unit, has one feature.
    PREDGAP_INLINE bool is_alone(std::int32_t u) const { return begin_[u + 1] - begin_[u] == 1; }
    PREDGAP_INLINE bool are_alone() const { return begin_.size() == member_.size() + 1; }

private:
    Buffer<std::int32_t> begin_, member_, of_;
};

}  // namespace predgap
