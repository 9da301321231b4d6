// The list of operations beside the programs of its rows. The list is conformance/ops.csv, which has the operations of
// XLA's builder, and those of the operation table's elementwise operations that it lacks.
#ifndef BACKPLANE_CORE_IR_OPS_ROW_WALK_TEST_H_
#define BACKPLANE_CORE_IR_OPS_ROW_WALK_TEST_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/ops/row_programs_test.h"

namespace backplane::rows {

struct Row {
  std::string name, function, opcode, stablehlo, arguments;
};
const std::vector<Row>& Rows();
const std::map<std::string, RowProgram>& Programs();

std::string FileText(const std::string& path);

// The program as the entry of a module; null, and a failure of the test, where a call fails.
std::unique_ptr<Module> Build(const RowProgram& program);

// Evaluates it as replica 0 of two that have the same operands. Arguments, infeeds and receives are 1, 2, ...; the
// custom call test.double doubles.
absl::StatusOr<Literal> RunRow(const Module& module);
// Expects the value that the row's line says; where it says none, the value that the program itself has.
void ExpectValue(const RowProgram& program, const Literal& got);

}  // namespace backplane::rows

#endif  // BACKPLANE_CORE_IR_OPS_ROW_WALK_TEST_H_
