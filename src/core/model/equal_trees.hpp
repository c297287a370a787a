// Trees with the same splits, added into one: trees that cancel then cancel exactly, whatever comes after.
#pragma once

#include "model/model.hpp"

namespace predgap {

void merge_equal_trees(NodeArrays& arrays);

}  // namespace predgap
