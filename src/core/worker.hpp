// One thread's arrays: a block of eight rows, and the scratch of both strategies.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine.hpp"
#include "lane_array.hpp"

namespace predgap {

class Worker {
public:
    Worker(const PlanView& plan, const Request& request, Purpose purpose) : p_(plan), r_(request) {
        each_array(p_, purpose, [this](double* Block::* array, std::int64_t n) {
            block_.*array = lanes_.emplace_back(n).get();
        });
        for (auto** array : {&block_.moves, &block_.gone, &block_.perturbed, &block_.chosen, &block_.fresh})
            *array = bytes(p_.n_features);
        for (auto** array : {&block_.active, &block_.dirty, &block_.changed}) *array = bytes(p_.n_components);
        block_.inside_bits = bytes(p_.n_literals);
        masks_.resize(std::size_t{1} << p_.widest_box);
        block_.mask = masks_.data();
        levels_.resize(static_cast<std::size_t>(p_.most_levels));
        block_.level_atom = levels_.data();
        if (const auto* noise = r_.categories)
            block_.sets = {noise->mass.data(),  noise->inside.data(), noise->outside.data(),
                           noise->joint.data(), noise->index.data(),  noise->begin.data()};
    }

    // What one worker takes, but for some bytes per feature and component.
    static double bytes(const PlanView& plan, Purpose purpose) {
        double n_items = 1;
        each_array(plan, purpose,
                   [&](double* Block::*, std::int64_t n) { n_items += static_cast<double>(n); });
        return n_items * kLanes * sizeof(double);
    }

    // Rows first ... first + 7; past the last row its lanes repeat it, and are not reported.
    void load(std::int64_t first, const std::atomic<bool>& stop) {
        block_.stop = pairs_.stop = &stop;
        first_ = first;
        const auto d = p_.n_features;
        for (std::int32_t q = 0; q < d; ++q) {
            block_.moves[q] = block_.gone[q] = 0;
            block_.perturbed[q] = 1;
            for (int lane = 0; lane < kLanes; ++lane) {
                const double x = r_.x[row(lane) * d + q];
                block_.x[q * kLanes + lane] = x;
                const auto bit = static_cast<LaneBits>(1u << lane);
                if (std::isnan(x)) block_.gone[q] |= bit;
                if (std::isfinite(x) && r_.law[q] != Law::still) block_.moves[q] |= bit;
            }
        }
    }

    void restrict_to(const PerRow<std::uint8_t>& subset) {
        for (std::int32_t q = 0; q < p_.n_features; ++q) {
            for (int lane = 0; lane < kLanes; ++lane)
                if (!subset.row(row(lane), p_.n_features)[q])
                    block_.moves[q] &= static_cast<LaneBits>(~(1u << lane));
            block_.perturbed[q] = block_.moves[q] != 0;
        }
    }

    void fill_tables() {
        for (std::int32_t q = 0; q < p_.n_features; ++q) {
            if (r_.law[q] != Law::table || !block_.perturbed[q]) continue;
            for (auto a = p_.atom_begin[q]; a < p_.atom_begin[q + 1]; ++a)
                for (int lane = 0; lane < kLanes; ++lane) {
                    block_.below[std::int64_t{a} * kLanes + lane] =
                        r_.table_below[row(lane) * p_.n_thresholds + a];
                    block_.above[std::int64_t{a} * kLanes + lane] =
                        r_.table_above[row(lane) * p_.n_thresholds + a];
                }
        }
        kernels().tables(p_, block_, r_.law, r_.parameter);
    }

    void begin_row(bool for_ranking) {
        for (std::int32_t c = 0; c < p_.n_components; ++c) {
            block_.active[c] = 1;
            for (auto i = p_.component_feature_begin[c]; i < p_.component_feature_begin[c + 1]; ++i)
                block_.active[c] &= block_.perturbed[p_.component_feature[i]];
        }
        kernels().begin_row(p_, block_, for_ranking);
    }

    Block& block() { return block_; }
    const PlanView& plan() const { return p_; }
    Pairs::Scratch& pairs() { return pairs_; }
    RowTables tables(int lane) const {
        return {block_.x + lane, block_.below + lane, block_.above + lane, kLanes, r_.categories};
    }
    std::int64_t row(int lane) const { return std::min(first_ + lane, r_.n_rows - 1); }
    int n_rows() const { return static_cast<int>(std::min<std::int64_t>(kLanes, r_.n_rows - first_)); }

private:
    // Visits the arrays of lanes that a purpose needs, with their numbers of items.
    template <class Visit>
    static void each_array(const PlanView& p, Purpose purpose, Visit visit) {
        visit(&Block::x, p.n_features);
        for (auto array : {&Block::below, &Block::above, &Block::shift}) visit(array, p.n_atoms);
        visit(&Block::member, p.n_atoms - p.n_thresholds);
        if (purpose == Purpose::tables) return;
        visit(&Block::inside, p.n_literals);
        visit(&Block::box_inside, p.n_boxes);
        visit(&Block::tree_value, p.n_trees);
        visit(&Block::coefficient, std::int64_t{1} << p.widest_box);
        visit(&Block::weight, p.n_terms + 1);
        visit(&Block::scratch, p.widest_scratch);
        if (purpose == Purpose::gap) return;
        for (auto array : {&Block::form, &Block::piece}) visit(array, p.n_components);
        for (auto array :
             {&Block::pair_below, &Block::pair_above, &Block::pair_other, &Block::lower, &Block::upper})
            visit(array, p.n_atoms);
        if (purpose == Purpose::nested) return;
        visit(&Block::reach, p.n_literals);
        visit(&Block::error_scale, p.n_components);
        visit(&Block::product, p.n_terms + 1);
        visit(&Block::gain, p.n_features);
        visit(&Block::error_of, p.n_features + 1);
    }

    LaneBits* bytes(std::int64_t n) {
        return bytes_.emplace_back(static_cast<std::size_t>(n), LaneBits{0}).data();
    }

    const PlanView& p_;
    const Request& r_;
    std::int64_t first_ = 0;
    Block block_{};
    std::vector<LaneArray> lanes_;
    std::vector<std::vector<LaneBits>> bytes_;
    std::vector<std::int32_t> masks_, levels_;
    Pairs::Scratch pairs_;
};

}  // namespace predgap
