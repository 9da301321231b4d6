// The operation table: each operation's line of op_table.def and the functions of its family.
//
// A family's functions take shapes, attributes and literals, never instructions. They get called computations as
// callables. Therefore the evaluator, the verifier, constant folding and the builder can all use them.
#ifndef BACKPLANE_CORE_OPS_OP_INFO_H_
#define BACKPLANE_CORE_OPS_OP_INFO_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attributes.h"
#include "core/types/literal.h"
#include "core/types/shape.h"

namespace backplane {

enum class Opcode : uint8_t {
#define OP(e, text, arity, family, traits, stablehlo, ...) e,
#include "core/ops/op_table.def"
};

enum OpTrait : uint32_t {
  kElementwise = 1,         // an output element is computed from the same element of each operand
  kCommutative = 2,         // the two operands may be swapped
  kDeclared = 4,            // operands and attributes do not determine the result shape: it must be given
  kSideEffect = 8,          // must not be removed or reordered with other side effects
  kCollective = 16,         // several devices execute it together
  kHasCalled = 32,          // has called computations
  kTranscendental = 64,     // its cost is counted in transcendentals
  kResultAccuracy = 128,    // takes a result accuracy
  kCallsPerElement = 256,   // its called computations run for single elements
  kReduces = 512,           // the last of its called computations is a reducer: it combines two elements into one
  kReducesWindows = 1024,   // the reducer combines the elements of each window
  kControlFlow = 2048,      // executes its called computations: a call, a conditional, a loop
  kForwardsOperand = 4096,  // its result is its first operand: a barrier, a domain, a dependency
  kNoOp = 8192,             // computes nothing: a parameter, a constant, a tuple, an element of a tuple
};

// Which element types the operands of an elementwise operation may have.
enum class OperandTypes : uint8_t {
  kFloat,
  kComplexPart,  // f32 and f64: the parts of a complex type
  kInteger,
  kBits,     // integers and pred
  kInexact,  // floats and complex
  kReal,     // integers and floats
  kNumber,   // all but pred
  kAny,
};
bool Includes(OperandTypes types, PrimitiveType type);

// What an operation's functions may read.
struct OpContext {
  Opcode opcode;
  absl::string_view name;  // the instruction's name, for messages; may be empty
  absl::Span<const Shape* const> operands;
  const Attributes* attrs = nullptr;      // never null
  absl::Span<const ProgramShape> called;  // signatures of the called computations, in order
  const Shape* declared = nullptr;        // the given result shape; null when it is to be inferred
  const Literal* literal = nullptr;       // constants only

  // Returns InvalidArgument with the message "dot.3: text [label]".
  absl::Status Error(absl::string_view label, absl::string_view text) const;
  const Shape& operand(int i) const { return *operands[i]; }
};

class ScalarProgram;  // core/ops/scalar_program.h

// The environment of an evaluation. core/eval implements it.
class EvalEnv {
 public:
  virtual ~EvalEnv() = default;
  // Runs the i-th called computation.
  virtual absl::StatusOr<Literal> Call(int i, absl::Span<const Literal* const> args) = 0;
  // Like Call, but takes ownership of the arguments, so that the callee may change them in place.
  virtual absl::StatusOr<Literal> CallWithOwnedArguments(int i, std::vector<Literal> args) {
    std::vector<const Literal*> pointers;
    for (const Literal& a : args) pointers.push_back(&a);
    return Call(i, pointers);
  }
  // Returns the value of operand i, which is `operand`. If this is its last use, moves it out of the environment, so
  // that an operation can change it in place unless another value shares its data.
  virtual Literal TakeOperand(int i, const Literal& operand) { return operand; }
  // Returns the i-th called computation as a scalar program. Null if it contains anything but elementwise operations on
  // scalars.
  virtual const ScalarProgram* CalledScalarProgram(int i) { return nullptr; }
  // Loops call this once per iteration. An error ends the evaluation.
  virtual absl::Status CheckCancelled() { return absl::OkStatus(); }
  // Returns the binary operation that the i-th called computation applies to its two parameters, in order. Nullopt for
  // any other computation.
  virtual std::optional<Opcode> CalledBinaryOp(int i) = 0;
  // Executes an operation whose result depends on the running program: collectives, custom calls, transfers, random
  // state, replica and partition ids.
  virtual absl::StatusOr<Literal> RunExternal(const OpContext& op, absl::Span<const Literal* const> operands) = 0;
};

struct Cost {
  double flops = 0, transcendentals = 0, bytes_accessed = 0;
};

using InferFn = absl::StatusOr<Shape> (*)(const OpContext&);
using EvaluateFn = absl::StatusOr<Literal> (*)(const OpContext&, absl::Span<const Literal* const>, EvalEnv&);
using CostFn = Cost (*)(const OpContext&, const Shape& result);

struct OpInfo {
  Opcode opcode;
  const char* text;  // HLO name
  int arity;         // -1: any
  uint32_t traits;
  const char* stablehlo;           // names in StableHLO or CHLO, separated by ';'
  std::vector<AttrId> attributes;  // allowed, in printing order
  InferFn infer;        // checks operands, attributes and, where given, the declared shape; returns the result shape
  EvaluateFn evaluate;  // computes the result, which has the inferred dimensions
  CostFn cost;          // null: bytes only

  // Set for elementwise operations with a line OP_UNARY, OP_FUNCTION or OP_BINARY; see op_table.def.
  std::optional<OperandTypes> operand_types = std::nullopt;
  int since = 0, accuracy_since = 0;

  bool Has(OpTrait t) const { return (traits & t) != 0; }
  // Whether it reduces elements within one device, not those of several ones: all operations with a reducer that are no
  // collectives.
  bool ReducesLocally() const { return Has(kReduces) && !Has(kCollective); }
};

// Returns the table, in the order of the enumerators. It is built on first use. Thread-safe.
absl::Span<const OpInfo> Operations();
const OpInfo& Info(Opcode opcode);
std::optional<Opcode> ParseOpcode(absl::string_view text);  // HLO name
absl::string_view OpName(Opcode opcode);
// Returns the operation with this name in StableHLO, without the dialect prefix, or in CHLO, with it ("add",
// "chlo.erf"). Null if there is none.
const OpInfo* FindByStablehlo(absl::string_view name);

// Returns the result shape of an operation after all checks of its family. Ignores the layouts of the operands. A
// violated rule is an InvalidArgument error whose message ends in the label of the rule.
absl::StatusOr<Shape> InferShape(const OpContext& op);
// Evaluates an operation on literals. The context must have passed InferShape with the shapes of the literals.
absl::StatusOr<Literal> EvaluateOp(const OpContext& op, absl::Span<const Literal* const> operands, EvalEnv& env);
Cost EstimateCost(const OpContext& op, const Shape& result);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_OP_INFO_H_
