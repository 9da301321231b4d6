// Emits LLVM IR for one HLO operation on one element or on a vector of elements: types, constants, conversions,
// arithmetic.
//
// In registers an element has its compute type. f16, bf16 and the 8-bit floats are held as f32 with an exactly
// representable value: every arithmetic result is rounded. pred is i1. Integers narrower than a byte are i8 within
// their range. A complex number is two values. A scalar that is combined with vectors is splatted.
#ifndef BACKPLANE_SDK_CODEGEN_ELEMENT_EMITTER_H_
#define BACKPLANE_SDK_CODEGEN_ELEMENT_EMITTER_H_

#include <map>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ir/computation.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/vector_math.h"

namespace backplane::codegen {

struct Val {
  llvm::Value* v = nullptr;       // the value, or the real part
  llvm::Value* im = nullptr;      // imaginary part
  llvm::Value* stored = nullptr;  // the value in its storage type if it has been computed, else null
  explicit operator bool() const { return v != nullptr; }
};
using Vals = absl::InlinedVector<Val, 3>;

class ElementEmitter {
 public:
  ElementEmitter(llvm::Module* module, const IrTarget* target);

  llvm::IRBuilder<>& b() { return b_; }
  llvm::LLVMContext& context() { return context_; }
  llvm::Module* module() { return module_; }
  const IrTarget& target() const { return *target_; }
  VectorMath& math() { return math_; }
  // The error of the first operation that could not be emitted. After an error the emitted code is invalid.
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // The LLVM types of one element. The storage type of a complex number is an array of two parts.
  llvm::Type* StorageType(PrimitiveType t);
  llvm::Type* ComputeType(PrimitiveType t);  // of the real part if complex

  Val FromStorage(PrimitiveType t, llvm::Value* raw);  // raw: StorageType or a vector of it; not complex
  llvm::Value* ToStorage(PrimitiveType t, const Val& v);

  // Rounds or wraps a result in the compute type to a value of type t.
  Val Round(PrimitiveType t, llvm::Value* computed);
  // The same for the result of an instruction of the machine whose operands have type t, or of a few of them.
  Val RoundArithmetic(PrimitiveType t, llvm::Value* computed);

  Val Constant(const Literal& literal, int64_t linear);
  // Sets *v to the identity of a reduction by `op`, such as zero or one. Returns false if there is none.
  bool Identity(Opcode op, PrimitiveType t, Val* v);
  static bool HasIdentity(Opcode op, PrimitiveType t);

  static int GetLanes(llvm::Value* v);  // 0: scalar
  static int GetLanes(const Val& v) { return GetLanes(v.v); }
  llvm::Value* Splat(llvm::Value* v, int lanes);  // returns v if lanes is 0 or v is a vector
  Val Splat(const Val& v, int lanes);

  // Emits an operation with the trait kElementwise, or a similar one (real, complex, compare, ...). Operands may mix
  // scalars and vectors. If `rounded` is false, the result of f16 and bf16 arithmetic keeps f32 precision.
  Val Emit(const Instruction& op, absl::Span<const Val> operands, bool rounded = true);

  // While such an object exists, sums and differences of f32 and f64 may be fused with the products that they add, if
  // the target does so (IrTarget::fuses_sums_of_products).
  class FusedSums {
   public:
    explicit FusedSums(ElementEmitter& emitter) : emitter_(emitter), before_(emitter.fuses_sums_) {
      emitter.fuses_sums_ = emitter.target_->fuses_sums_of_products;
    }
    ~FusedSums() { emitter_.fuses_sums_ = before_; }
    FusedSums(const FusedSums&) = delete;
    FusedSums& operator=(const FusedSums&) = delete;

   private:
    ElementEmitter& emitter_;
    const bool before_;
  };
  Val Binary(Opcode op, PrimitiveType t, Val x, Val y, bool rounded = true);
  Val Convert(const Val& v, PrimitiveType from, PrimitiveType to);
  Val BitcastConvert(const Val& v, PrimitiveType from, PrimitiveType to);
  Val Select(llvm::Value* condition, const Val& x, const Val& y);
  // Converts an index, an integer scalar or vector, to an element of type t.
  Val FromInteger(llvm::Value* index, PrimitiveType t);

  static absl::Status CanEmit(const Instruction& op);

 private:
  using Fn = MathFn;
  Val UnaryFloat(const Instruction& op, PrimitiveType t, const Val& x, bool rounded);
  Val UnaryInt(const Instruction& op, PrimitiveType t, const Val& x);
  Val BinaryFloat(Opcode op, PrimitiveType t, const Val& x, const Val& y, bool rounded);
  Val BinaryInt(Opcode op, PrimitiveType t, const Val& x, const Val& y);
  Val UnaryComplex(const Instruction& op, PrimitiveType t, const Val& x);
  Val BinaryComplex(Opcode op, PrimitiveType t, const Val& x, const Val& y);
  Val Compare(const Instruction& op, const Val& x, const Val& y);
  Val ReducePrecision(PrimitiveType t, const Val& x, int exponent_bits, int mantissa_bits);
  llvm::Value* DivideInt(PrimitiveType t, llvm::Value* x, llvm::Value* y, bool remainder);
  llvm::Value* PowerInt(PrimitiveType t, llvm::Value* x, llvm::Value* y);
  llvm::Value* WrapInt(PrimitiveType t, llvm::Value* v);
  llvm::Value* MaxMin(bool max, llvm::Value* x, llvm::Value* y);
  llvm::Value* EncodeSmall(PrimitiveType t, llvm::Value* f32);
  llvm::Value* DecodeSmall(PrimitiveType t, llvm::Value* bits);
  llvm::Value* M(Fn fn, llvm::Value* x, llvm::Value* y = nullptr) { return math_.Emit(b_, fn, x, y); }
  llvm::Value* Num(llvm::Value* like, double c) { return llvm::ConstantFP::get(like->getType(), c); }

  llvm::Module* module_;
  const IrTarget* target_;
  bool fuses_sums_ = false;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  VectorMath math_;
  absl::Status status_;
  std::map<PrimitiveType, llvm::GlobalVariable*> decode_tables_;
};

// Classify the float types that kernels support.
bool IsSmallFloat(PrimitiveType t);   // narrower than 16 bits
bool IsNarrowFloat(PrimitiveType t);  // computed in f32: f16, bf16 and the small ones

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_ELEMENT_EMITTER_H_
