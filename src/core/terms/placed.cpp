#include "terms/placed.hpp"

#include <stdexcept>

namespace predgap {

Placed::Memory& Placed::Memory::ready() {
    for (std::size_t g = 0; g < state.size(); ++g) weight[g].swap(state[g].weight);
    return *this;
}

Placed::Placed(Memory& memory, const Plans& plans, const RowTables& tables, RowWork& work)
    : memory_(memory.ready()), plans_(&plans), tables_(tables), work_(work) {
    double spread = 0.0;
    for (std::size_t g = 0; g < plans.size(); ++g) {
        plans[g]->spread(tables, memory.scratch[g], memory.weight[g]);
        spread += memory.scratch[g].used_bytes();
        work.add(nominal::kPushedTerm * plans[g]->typical_spread());
    }
    work.hold(RowWork::Arrays::boxes, spread);
}

Placed::Placed(Memory& memory, RowCompilation& compilation, const Compiled& asked, const RowTables& tables,
               RowWork& work)
    : memory_(memory.ready()),
      compilation_(&compilation),
      tables_(tables),
      work_(work),
      cell_rule_(asked.cell_rule),
      left_out_(
          compilation.compile(asked.limit, asked.most_entries, memory.weight, asked.likely, asked.trees)) {}

const RowTerms& Placed::terms(std::size_t group) const {
    return plans_ ? (*plans_)[group]->terms() : compilation_->terms(group);
}

std::vector<TermState>& Placed::begin(TermUse use) {
    if (!has_weights_) throw std::logic_error("the weights of a row are used up; keep_weights() keeps them");
    has_weights_ = keeps_weights_;
    use.cell_rule = cell_rule_;
    double bytes = 0.0;
    for (std::size_t g = 0; g < memory_.state.size(); ++g) {
        auto& state = memory_.state[g];
        auto& weight = memory_.weight[g];
        if (keeps_weights_) {
            Buffer<double> copy;
            copy.swap(state.weight);  // for its room
            copy.assign(weight);
            state.begin(terms(g), tables_, work_, use, copy);
            bytes += weight.used_bytes();
        } else {
            state.begin(terms(g), tables_, work_, use, weight);
        }
        bytes += state.bytes();
    }
    work_.hold(RowWork::Arrays::states, bytes);
    return memory_.state;
}

void Placed::read_error_scales(std::size_t group, Buffer<double>& scale) const {
    if (plans_)
        (*plans_)[group]->error_scales(tables_, memory_.scratch[group], scale);
    else
        compilation_->error_scales(group, scale);
}

double Placed::largest_error() const {
    double sum = 0.0;
    for (std::size_t g = 0; g < memory_.state.size(); ++g) {
        const double change =
            plans_ ? (*plans_)[g]->largest_change(memory_.scratch[g]) : compilation_->largest_change(g);
        sum += static_cast<double>(model().group[g].root.size()) * change * change;
    }
    return sum;
}

}  // namespace predgap
