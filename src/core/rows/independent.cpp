#include "rows/independent.hpp"

#include <stdexcept>

namespace predgap {

Independent::Independent(const Routes& routes, LawArrays laws, std::vector<double> mass,
                         std::vector<double> stay, const std::function<void()>& check)
    : routes_(routes), laws_(std::move(laws)) {
    const auto& model = routes.model;
    if (!mass.empty())
        categories_ = std::make_unique<CategoryNoise>(model.cells, model.set_atoms, std::move(mass),
                                                      std::move(stay), check);
}

void Independent::check(const RowArrays& rows) const {
    for (const auto q : routes_.model.features)
        if (laws_.law[static_cast<std::size_t>(q)] == Law::table && !(rows.below && rows.above))
            throw std::invalid_argument("a table law needs its tables");
}

std::unique_ptr<RowSolver> Independent::take_solver() const {
    {
        const std::lock_guard lock(mutex_);
        if (!waiting_.empty()) {
            auto solver = std::move(waiting_.back());
            waiting_.pop_back();
            return solver;
        }
    }
    return std::make_unique<RowSolver>(routes_, NoiseLaws{&laws_, categories_.get()});
}

void Independent::give_back(std::unique_ptr<RowSolver> solver) const {
    const auto took = solver->take_most_work();
    const std::lock_guard lock(mutex_);
    most_work_.nanoseconds = std::max(most_work_.nanoseconds, took.nanoseconds);
    most_work_.bytes = std::max(most_work_.bytes, took.bytes);
    if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(solver));
}

RowWork::Limits Independent::most_work() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(most_work_, {0.0, 0.0});
}

}  // namespace predgap
