// Holds the flag that stops a row which takes too much.
#include "model/row_work.hpp"

namespace predgap {

const std::atomic<bool> RowWork::kAlways{true};

}  // namespace predgap
