// Emits loads and stores of elements: of a vector if the address differs between lanes, otherwise of one element.
//
// Arrays are dense and row-major; an address is a position in elements. A pointer has the address space of the value
// that the caller passes, and constant tables are in IrTarget::constant_address_space. Elements are aligned to their
// size as far as IrTarget::buffer_alignment guarantees this for the first element.
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

  // Loads the element at base[address]. If the guards do not hold, the value is unspecified and no memory is read.
  Val Load(const ArrayRef& array, const Affine& address, const Guards& guards);
  // Stores the value if the guards hold.
  void Store(const ArrayRef& array, const Affine& address, const Val& value, const Guards& guards);

  // Stores several values at once. Values at neighbouring addresses, in vectors that advance by as many elements from
  // lane to lane, are interleaved in registers and stored in long pieces.
  void StoreSeveral(const ArrayRef& array, absl::Span<const Affine> addresses, absl::Span<const Val> values,
                    const Guards& guards);

  // Like Load and Store, but for scratch memory that holds values as they are computed: narrow floats with the
  // precision of f32. Used for partial results of reductions and staged rows.
  Val LoadComputed(llvm::Value* base, const Affine& position, PrimitiveType t);
  void StoreComputed(llvm::Value* base, const Affine& position, PrimitiveType t, Val v, const Guards& guards = {});

  // Adds the elements of the literal to the module as constant data.
  ArrayRef Constant(const Literal& literal);

 private:
  // Loads or stores raw[scale * address + offset] for each lane. The mask is an i1, a vector of i1, or null.
  llvm::Value* LoadRaw(llvm::Type* element, llvm::Value* base, const Affine& address, int scale, int offset,
                       llvm::Value* mask);
  void StoreRaw(llvm::Type* element, llvm::Value* base, const Affine& address, int scale, int offset,
                llvm::Value* value, llvm::Value* mask);
  llvm::Value* LoadScalar(llvm::Type* element, llvm::Value* base, const Affine& address, llvm::Value* mask);
  llvm::Value* LoadEachLane(llvm::Type* element, llvm::Value* base, const Affine& address, llvm::Value* mask);
  llvm::Value* LoadStrided(llvm::Type* element, llvm::Value* pointer, int stride);
  // Stores lane i of value k at pointer[i * n + k], for n values.
  void StoreInterleaved(llvm::Type* element, llvm::Value* pointer, absl::Span<llvm::Value* const> values);
  // Returns the address of the first pair of parts if neighbouring lanes have their pairs in consecutive memory, else
  // null.
  llvm::Value* ConsecutivePairs(llvm::Type* part, llvm::Value* base, const Affine& address);
  llvm::Align GetAlignment(llvm::Type* element) const;
  // Returns memory, in the address space of `base`, that is read in place of an element that may not exist.
  llvm::Value* GetFallbackAddress(llvm::Value* base);

  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  IndexEvaluator& indices_;
  std::map<unsigned, llvm::Value*> zeros_;  // by address space
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_MEMORY_ACCESS_H_
