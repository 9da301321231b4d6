// Small programs, one for each row of the list of operations (row_walk_test.h). Each calls the named function of its
// row.
#ifndef BACKPLANE_CORE_IR_OPS_ROW_PROGRAMS_TEST_H_
#define BACKPLANE_CORE_IR_OPS_ROW_PROGRAMS_TEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/ir/ops/ops.h"

namespace backplane::rows {

// A program. `make` builds it in an empty computation. `expected` is the literal to which it evaluates, as HLO text; a
// prefix such as "~1e-6 " gives a tolerance. It is null if only the evaluator defines the value. `source` is the text
// of `make`.
struct RowProgram {
  const char* row;
  const char* expected;
  hlo::Result (*make)(Builder& b);
  const char* source;
};

// ROW("Abs", "{2, 0, 2}", { return Abs(b, C(b, "s32[3]", "{-2, 0, 2}")); })
#define ROW(row, expected, ...) \
  { row, expected, [](Builder & b) -> Result __VA_ARGS__, #__VA_ARGS__ }

std::vector<RowProgram> ElementwiseRows();
std::vector<RowProgram> ShapeRows();
std::vector<RowProgram> ComputeRows();
std::vector<RowProgram> DeviceRows();
// Returns one program for each elementwise operation without attributes in the operation table, and one with a result
// accuracy if the operation takes one.
std::vector<RowProgram> TableRows();

// Helpers to write programs. They end the test process if they fail, which means that a row is wrong.
Value C(Builder& b, absl::string_view shape, absl::string_view values);  // a constant
Shape S(absl::string_view text);
// A computation of the builder's module with parameters of these shapes.
Computation* Fn(Builder& b, const std::vector<const char*>& parameters,
                hlo::Result (*body)(Builder& b, const std::vector<Value>& p));
Computation* AddFn(Builder& b, PrimitiveType type);

}  // namespace backplane::rows

#endif  // BACKPLANE_CORE_IR_OPS_ROW_PROGRAMS_TEST_H_
