// Combines the list of operations with the programs of its rows. The list contains the operations of XLA's builder
// (conformance/ops.csv) and the elementwise operations of the operation table that are not in that file.
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

std::string ReadFile(const std::string& path);

// Returns a module with the program as its entry. If a call fails, returns null and fails the test.
std::unique_ptr<Module> Build(const RowProgram& program);

// Evaluates the module as replica 0 of two replicas with equal operands. Arguments and received values are 1, 2, ...;
// the custom call test.double doubles its operand.
absl::StatusOr<Literal> RunRow(const Module& module);
// Expects the value that the row of the list states, or else the one that the program states.
void ExpectValue(const RowProgram& program, const Literal& got);

}  // namespace backplane::rows

#endif  // BACKPLANE_CORE_IR_OPS_ROW_WALK_TEST_H_
