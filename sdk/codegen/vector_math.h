// Emits elementary functions as LLVM IR, for scalars and vectors of any length of f16, bf16, f32 and f64.
//
// Short functions are emitted inline, because a call spills every live vector around it, which is 16 to 24 % slower.
// Long functions, and those with branches, become internal functions of the module, one per element type and length,
// and are called. Emit never adds basic blocks to the function of the caller. f16 and bf16 are computed in f32 and
// rounded once.
//
// Special values follow IEEE 754 and C's Annex F: infinities, NaN, signed zeros, gradual underflow, with one
// exception: of two zeros of different sign kMaximum and kMinimum return the second operand.
// vector_math_test measures the error bounds of functions of one operand (MathError), which are at most 2.5 units in
// the last place for f32 and f64.
//
// No fast-math flag must be set on the builder that is passed in.
#ifndef BACKPLANE_SDK_CODEGEN_VECTOR_MATH_H_
#define BACKPLANE_SDK_CODEGEN_VECTOR_MATH_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "core/ops/op_info.h"
#include "sdk/codegen/ir_target.h"

namespace llvm {
class IRBuilderBase;
class Module;
class Type;
class Value;
}  // namespace llvm

namespace backplane::codegen {

enum class MathFn {
  // one operand
  kExp2,
  kLog2,
  kSinh,
  kFloor,
  kCeil,
  kRoundEven,
  kRoundAfz,
  kTrunc,
  kAbs,
  kNegate,
  kSign,
  // two operands
  kPow,        // x to the power y
  kAtan2,      // the angle of the point (y, x): Emit(kAtan2, y, x)
  kRemainder,  // sign of x, as C's fmod
  kMaximum,
  kMinimum,   // NaN if either is NaN; a constant is best given as x
  kCopySign,  // magnitude of x, sign of y
  kHypot,
// One operand: an enumerator for each line OP_FUNCTION of the operation table, with the operation's name (kExp, kTanh).
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) e,
#include "core/ops/op_table.def"
};

// Returns the function that implements an operation, or nullopt if the line of the operation is not OP_FUNCTION.
std::optional<MathFn> FindMathFn(Opcode opcode);

// The largest error of the code of a function on a target with has_fma, in units in the last place of a normal result.
struct MathError {
  double f32, f64;
};

class VectorMath {
 public:
  // Both must outlive this object. One object serves one module, on one thread at a time.
  VectorMath(llvm::Module* module, const IrTarget* target);

  // Emits fn(x) or fn(x, y). The operands have one type, a float or a fixed vector of floats, which is also the type of
  // the result. Returns null if there is no code for the function.
  llvm::Value* Emit(llvm::IRBuilderBase& b, MathFn fn, llvm::Value* x, llvm::Value* y = nullptr);

  // Converts between float types of equal lane count. Rounds to nearest even and keeps NaN. bf16 and f16 values have
  // LLVM's types `bfloat` and `half`.
  // `nan_is_bf16`: if an element of `x` is NaN, the lower half of its bits is zero, so bf16 represents it.
  llvm::Value* ConvertFloat(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Type* element_type, bool nan_is_bf16 = false);

  // Converts floats to integers as HLO does: truncates, saturates and converts NaN to zero.
  llvm::Value* FloatToInt(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Type* int_element_type, bool is_signed);

  // Returns the error bound of an approximated function of one operand. Nullopt for any other function and for one
  // without code.
  static std::optional<MathError> GetErrorBound(MathFn fn);

 private:
  llvm::Module* module_;
  const IrTarget* target_;
};

// Defines the functions that modules call whose target has links_exact_math. kExactMathNames lists their names.
void EmitExactMath(llvm::Module& module, const IrTarget& target);
inline constexpr absl::string_view kExactMathNames[] = {
    "backplane.exact.reduce_angle.f32", "backplane.exact.remainder.f32", "backplane.exact.reduce_angle.f64",
    "backplane.exact.remainder.f64"};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_VECTOR_MATH_H_
