// Trees with the same splits, added into one: trees that cancel then cancel exactly, whatever comes after.
#pragma once

#include "model/model.hpp"

namespace predgap {

// check() is called now and then, and ends it by throwing.
void merge_equal_trees(NodeArrays& arrays, const std::function<void()>& check);

}  // namespace predgap
