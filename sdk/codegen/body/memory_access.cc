#include "sdk/codegen/body/memory_access.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/string_view.h"

namespace backplane::codegen {

using llvm::Type;
using llvm::Value;

MemoryAccess::MemoryAccess(ElementEmitter& elements, LoopScopes& scopes, IndexEvaluator& indices)
    : e_(elements), b_(elements.b()), scopes_(scopes), indices_(indices) {}

llvm::Align MemoryAccess::GetAlignment(Type* element) const {
  const uint64_t bytes = std::max<uint64_t>(element->getScalarSizeInBits() / 8, 1);
  const uint64_t promised = static_cast<uint64_t>(std::max(e_.target().buffer_alignment, 1));
  return llvm::Align(std::min(std::bit_floor(bytes), std::bit_floor(promised)));
}

Value* MemoryAccess::GetFallbackAddress(Value* base) {
  const unsigned space = base->getType()->getPointerAddressSpace();
  const IrTarget& target = e_.target();
  // Memory that only the machine can give out always has a first element.
  if (space != target.buffer_address_space && space != target.constant_address_space) return base;
  Value*& zeros = zeros_[space];
  if (zeros == nullptr) {
    auto* data = llvm::ConstantAggregateZero::get(llvm::ArrayType::get(b_.getInt8Ty(), 64));
    auto* global = new llvm::GlobalVariable(*e_.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                            data, "", nullptr, llvm::GlobalValue::NotThreadLocal, space);
    if (target.buffer_alignment > 1) global->setAlignment(llvm::Align(64));
    zeros = global;
  }
  return zeros;
}

ArrayRef MemoryAccess::Constant(const Literal& literal) {
  const absl::string_view bytes(reinterpret_cast<const char*>(literal.bytes()), literal.byte_size());
  auto* data = llvm::ConstantDataArray::getString(e_.context(), {bytes.data(), bytes.size()}, false);
  auto* global =
      new llvm::GlobalVariable(*e_.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, "",
                               nullptr, llvm::GlobalValue::NotThreadLocal, e_.target().constant_address_space);
  global->setAlignment(llvm::Align(64));
  return {global, literal.shape().element_type()};
}

// ---- Loads --------------------------------------------------------------------------------------------------------

Value* MemoryAccess::LoadScalar(Type* element, Value* base, const Affine& address, Value* mask) {
  Value* pointer = b_.CreateGEP(element, base, indices_.Uniform(address));
  if (mask && !mask->getType()->isVectorTy()) {
    pointer = b_.CreateSelect(mask, pointer, GetFallbackAddress(base));
  } else if (mask) {
    // Some lane may need the element, which then exists; if none does, it may not. The first element always does.
    pointer = b_.CreateSelect(b_.CreateOrReduce(mask), pointer, base);
  }
  return b_.CreateAlignedLoad(element, pointer, GetAlignment(element));
}

// Elements at a constant stride of 2 to 4: consecutive loads that end with the last wanted element, then shuffles.
Value* MemoryAccess::LoadStrided(Type* element, Value* pointer, int stride) {
  const int lanes = scopes_.lanes();
  Type* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  const int span = (lanes - 1) * stride + 1;
  Value* result = nullptr;
  for (int piece = 0; piece < stride; ++piece) {
    const int offset = std::min(piece * lanes, span - lanes);
    Value* x = b_.CreateAlignedLoad(vector, b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(offset)),
                                    GetAlignment(element));
    std::vector<int> pick(static_cast<size_t>(lanes), -1);
    if (!result) {
      for (int i = 0; i < lanes; ++i) {
        if (i * stride < lanes) pick[static_cast<size_t>(i)] = i * stride;
      }
      result = b_.CreateShuffleVector(x, pick);
      continue;
    }
    for (int i = 0; i < lanes; ++i) {
      const int at = i * stride;
      if (at < piece * lanes) {
        pick[static_cast<size_t>(i)] = i;
      } else if (at >= piece * lanes && at < (piece + 1) * lanes) {
        pick[static_cast<size_t>(i)] = lanes + at - offset;
      }
    }
    result = b_.CreateShuffleVector(result, x, pick);
  }
  return result;
}

Value* MemoryAccess::LoadEachLane(Type* element, Value* base, const Affine& address, Value* mask) {
  const int lanes = scopes_.lanes();
  Type* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  const IndexEvaluator::LaneSum sum = indices_.SplitLanes(address);
  Value* start = b_.CreateGEP(element, base, indices_.Uniform(sum.uniform));
  Value* lane_mask = mask ? e_.Splat(mask, lanes) : nullptr;
  const llvm::Align align = GetAlignment(element);
  if (sum.IsStrided() && sum.stride == 1) {
    if (!lane_mask) return b_.CreateAlignedLoad(vector, start, align);
    return b_.CreateMaskedLoad(vector, start, align, lane_mask, llvm::Constant::getNullValue(vector));
  }
  if (sum.IsStrided() && sum.stride == -1) {
    Value* low = b_.CreateConstGEP1_64(element, start, static_cast<uint64_t>(int64_t{1} - lanes));
    if (!lane_mask) return b_.CreateVectorReverse(b_.CreateAlignedLoad(vector, low, align));
    return b_.CreateVectorReverse(b_.CreateMaskedLoad(vector, low, align, b_.CreateVectorReverse(lane_mask),
                                                      llvm::Constant::getNullValue(vector)));
  }
  if (sum.IsStrided() && !lane_mask && sum.stride >= 2 && sum.stride <= 4 && lanes >= sum.stride) {
    return LoadStrided(element, start, static_cast<int>(sum.stride));
  }
  Value* offsets = indices_.LaneOffsets(sum, address);
  const unsigned bits = element->getScalarSizeInBits();
  if (bits == 32 || bits == 64) {
    Value* pointers = b_.CreateGEP(element, start, offsets);
    return b_.CreateMaskedGather(vector, pointers, align, lane_mask, llvm::Constant::getNullValue(vector));
  }
  // No such instruction for narrow elements: a load for each lane, of the array's first element where masked.
  Type* wide_type = llvm::FixedVectorType::get(b_.getInt64Ty(), static_cast<unsigned>(lanes));
  Value* wide = b_.CreateSExt(offsets, wide_type);
  Value* first = b_.CreateSExtOrTrunc(indices_.Uniform(sum.uniform), b_.getInt64Ty());
  wide = b_.CreateAdd(wide, e_.Splat(first, lanes));
  if (lane_mask) wide = b_.CreateSelect(lane_mask, wide, llvm::Constant::getNullValue(wide->getType()));
  Value* r = llvm::PoisonValue::get(vector);
  for (int i = 0; i < lanes; ++i) {
    const uint64_t lane = static_cast<uint64_t>(i);
    Value* pointer = b_.CreateGEP(element, base, b_.CreateExtractElement(wide, lane));
    r = b_.CreateInsertElement(r, b_.CreateAlignedLoad(element, pointer, align), lane);
  }
  return r;
}

Value* MemoryAccess::LoadRaw(Type* element, Value* base, const Affine& address, int scale, int offset, Value* mask) {
  const Affine a = address.Times(scale).Plus(offset);
  return scopes_.HasLanes(a) ? LoadEachLane(element, base, a, mask) : LoadScalar(element, base, a, mask);
}

Value* MemoryAccess::ConsecutivePairs(Type* part, Value* base, const Affine& address) {
  if (!scopes_.HasLanes(address)) return nullptr;
  const IndexEvaluator::LaneSum sum = indices_.SplitLanes(address);
  if (!sum.IsStrided() || sum.stride != 1) return nullptr;
  Value* pair = b_.CreateSExtOrTrunc(indices_.Uniform(sum.uniform), b_.getInt64Ty());
  return b_.CreateGEP(part, base, b_.CreateShl(pair, 1));
}

Val MemoryAccess::Load(const ArrayRef& array, const Affine& address, const Guards& guards) {
  Value* mask = indices_.Mask(guards);
  if (!IsComplex(array.type)) {
    return e_.FromStorage(array.type, LoadRaw(e_.StorageType(array.type), array.base, address, 1, 0, mask));
  }
  Type* part = e_.ComputeType(array.type);
  if (Value* start = mask ? nullptr : ConsecutivePairs(part, array.base, address)) {
    const int lanes = scopes_.lanes();
    Type* pairs = llvm::FixedVectorType::get(part, static_cast<unsigned>(2 * lanes));
    Value* both = b_.CreateAlignedLoad(pairs, start, GetAlignment(part));
    std::vector<int> even, odd;
    for (int i = 0; i < lanes; ++i) even.push_back(2 * i), odd.push_back(2 * i + 1);
    return {b_.CreateShuffleVector(both, even), b_.CreateShuffleVector(both, odd)};
  }
  return {LoadRaw(part, array.base, address, 2, 0, mask), LoadRaw(part, array.base, address, 2, 1, mask)};
}

// ---- Stores -------------------------------------------------------------------------------------------------------

void MemoryAccess::StoreRaw(Type* element, Value* base, const Affine& address, int scale, int offset, Value* raw,
                            Value* mask) {
  const Affine a = address.Times(scale).Plus(offset);
  const llvm::Align align = GetAlignment(element);
  if (!scopes_.HasLanes(a)) {
    if (mask && mask->getType()->isVectorTy()) mask = b_.CreateOrReduce(mask);
    auto store = [&] { b_.CreateAlignedStore(raw, b_.CreateGEP(element, base, indices_.Uniform(a)), align); };
    return mask ? scopes_.If(mask, store) : store();
  }
  const int lanes = scopes_.lanes();
  raw = e_.Splat(raw, lanes);
  const IndexEvaluator::LaneSum sum = indices_.SplitLanes(a);
  Value* start = b_.CreateGEP(element, base, indices_.Uniform(sum.uniform));
  Value* lane_mask = mask ? e_.Splat(mask, lanes) : nullptr;
  if (sum.IsStrided() && sum.stride == 1) {
    if (lane_mask) {
      b_.CreateMaskedStore(raw, start, align, lane_mask);
    } else {
      b_.CreateAlignedStore(raw, start, align);
    }
    return;
  }
  if (sum.IsStrided() && sum.stride == -1) {
    Value* low = b_.CreateConstGEP1_64(element, start, static_cast<uint64_t>(int64_t{1} - lanes));
    raw = b_.CreateVectorReverse(raw);
    if (lane_mask) {
      b_.CreateMaskedStore(raw, low, align, b_.CreateVectorReverse(lane_mask));
    } else {
      b_.CreateAlignedStore(raw, low, align);
    }
    return;
  }
  b_.CreateMaskedScatter(raw, b_.CreateGEP(element, start, indices_.LaneOffsets(sum, a)), align, lane_mask);
}

void MemoryAccess::Store(const ArrayRef& array, const Affine& address, const Val& value, const Guards& guards) {
  Value* mask = indices_.Mask(guards);
  if (!IsComplex(array.type)) {
    Value* raw = e_.ToStorage(array.type, value);
    return StoreRaw(e_.StorageType(array.type), array.base, address, 1, 0, raw, mask);
  }
  Type* part = e_.ComputeType(array.type);
  if (Value* start = mask ? nullptr : ConsecutivePairs(part, array.base, address)) {
    const int lanes = scopes_.lanes();
    const Val v = e_.Splat(value, lanes);
    std::vector<int> zip;
    for (int i = 0; i < lanes; ++i) zip.push_back(i), zip.push_back(lanes + i);
    b_.CreateAlignedStore(b_.CreateShuffleVector(v.v, v.im, zip), start, GetAlignment(part));
    return;
  }
  StoreRaw(part, array.base, address, 2, 0, value.v, mask);
  StoreRaw(part, array.base, address, 2, 1, value.im, mask);
}

// Vector j of the result has the elements j * lanes and up of the interleaved ones: element k of it is in lane
// (j * lanes + k) / n of value (j * lanes + k) % n.
void MemoryAccess::StoreInterleaved(Type* element, Value* pointer, absl::Span<Value* const> values) {
  const int n = static_cast<int>(values.size()), lanes = scopes_.lanes();
  for (int j = 0; j < n; ++j) {
    Value* piece = nullptr;
    for (int v = 0; v < n; ++v) {
      std::vector<int> pick(static_cast<size_t>(lanes), -1);
      for (int k = 0; k < lanes; ++k) {
        const int at = j * lanes + k;
        if (at % n == v) pick[static_cast<size_t>(k)] = (piece ? lanes : 0) + at / n;
        if (at % n < v) pick[static_cast<size_t>(k)] = k;
      }
      piece = piece ? b_.CreateShuffleVector(piece, values[static_cast<size_t>(v)], pick)
                    : b_.CreateShuffleVector(values[static_cast<size_t>(v)], pick);
    }
    b_.CreateAlignedStore(piece, b_.CreateConstGEP1_64(element, pointer, static_cast<uint64_t>(j * lanes)),
                          GetAlignment(element));
  }
}

void MemoryAccess::StoreSeveral(const ArrayRef& array, absl::Span<const Affine> addresses, absl::Span<const Val> values,
                                const Guards& guards) {
  const int n = static_cast<int>(values.size()), lanes = scopes_.lanes();
  bool interleaved = n >= 2 && n <= 4 && lanes >= n && !IsComplex(array.type) && scopes_.HasLanes(addresses[0]) &&
                     indices_.Mask(guards) == nullptr;
  for (int k = 1; interleaved && k < n; ++k) interleaved = addresses[static_cast<size_t>(k)] == addresses[0].Plus(k);
  if (interleaved) {
    const IndexEvaluator::LaneSum sum = indices_.SplitLanes(addresses[0]);
    if (sum.IsStrided() && sum.stride == n) {
      Type* element = e_.StorageType(array.type);
      std::vector<Value*> raw;
      for (const Val& v : values) raw.push_back(e_.Splat(e_.ToStorage(array.type, v), lanes));
      return StoreInterleaved(element, b_.CreateGEP(element, array.base, indices_.Uniform(sum.uniform)), raw);
    }
  }
  for (size_t k = 0; k < values.size(); ++k) Store(array, addresses[k], values[k], guards);
}

// ---- Values as they are computed ----------------------------------------------------------------------------------

Val MemoryAccess::LoadComputed(Value* base, const Affine& position, PrimitiveType t) {
  Val v = Load({base, IsNarrowFloat(t) ? PrimitiveType::kF32 : t}, position, {});
  if (IsNarrowFloat(t)) v.stored = nullptr;
  return v;
}

void MemoryAccess::StoreComputed(Value* base, const Affine& position, PrimitiveType t, Val v, const Guards& guards) {
  v.stored = nullptr;
  Store({base, IsNarrowFloat(t) ? PrimitiveType::kF32 : t}, position, v, guards);
}

}  // namespace backplane::codegen
