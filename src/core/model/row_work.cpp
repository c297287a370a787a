#include "model/row_work.hpp"

namespace predgap {

const std::atomic<bool> RowWork::kAlways{true};

}  // namespace predgap
