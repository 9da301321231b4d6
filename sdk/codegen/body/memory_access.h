// Loads and stores of elements: a vector of them where the address has lanes, one element otherwise (which on a GPU is
// the work item's).
//
// Arrays are dense and row-major; an address is a position in elements. A pointer's address space is that of the value
// the caller gives, and tables that the code brings along stand in IrTarget::constant_address_space. Elements are
// aligned to their size as far as IrTarget::buffer_alignment promises it for the first one.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_MEMORY_ACCESS_H_
#define BACKPLANE_SDK_CODEGEN_BODY_MEMORY_ACCESS_H_

#include <map>

#include "core/types/literal.h"
#include "sdk/codegen/body/index_evaluator.h"

namespace backplane::codegen {

// An array in memory. The elements of complex types are pairs of parts.
struct ArrayRef {
  llvm::Value* base = nullptr;
  PrimitiveType type = PrimitiveType::kInvalid;
};

class MemoryAccess {
 public:
  // All three must outlive this object.
  MemoryAccess(ElementEmitter& elements, LoopScopes& scopes, IndexEvaluator& indices);

  // The element at base[address]. Where the guards do not hold the value is arbitrary, and nothing is read there.
  Val Load(const ArrayRef& array, const Affine& address, const Guards& guards);
  // Stores where the guards hold.
  void Store(const ArrayRef& array, const Affine& address, const Val& value, const Guards& guards);

  // The same for memory of the kernel's own that holds values as they are computed: narrow floats with the precision of
  // f32. Partial results of reductions, staged rows.
  Val LoadComputed(llvm::Value* base, const Affine& position, PrimitiveType t);
  void StoreComputed(llvm::Value* base, const Affine& position, PrimitiveType t, Val v, const Guards& guards = {});

  // The literal's elements as data of the module.
  ArrayRef Constant(const Literal& literal);

 private:
  // A load or store of raw[scale * address + offset] for each lane. Mask: an i1, a vector of i1, or null.
  llvm::Value* LoadRaw(llvm::Type* element, llvm::Value* base, const Affine& address, int scale, int offset,
                       llvm::Value* mask);
  void StoreRaw(llvm::Type* element, llvm::Value* base, const Affine& address, int scale, int offset,
                llvm::Value* value, llvm::Value* mask);
  llvm::Value* LoadScalar(llvm::Type* element, llvm::Value* base, const Affine& address, llvm::Value* mask);
  llvm::Value* LoadEachLane(llvm::Type* element, llvm::Value* base, const Affine& address, llvm::Value* mask);
  llvm::Value* LoadStrided(llvm::Type* element, llvm::Value* pointer, int stride);
  // The first of the pairs of parts that neighbouring lanes have in consecutive memory; null when they have not.
  llvm::Value* ConsecutivePairs(llvm::Type* part, llvm::Value* base, const Affine& address);
  llvm::Align AlignmentOf(llvm::Type* element) const;
  // Memory that can be read in place of an element that may not exist, in the address space of `base`.
  llvm::Value* ReadableInsteadOf(llvm::Value* base);

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  IndexEvaluator& indices_;
  std::map<unsigned, llvm::Value*> zeros_;  // by address space
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_MEMORY_ACCESS_H_
