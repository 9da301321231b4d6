#include "plugins/hip/compiler/matrix_slice.h"

#include <algorithm>
#include <numeric>

#include "llvm/IR/CFG.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {

using llvm::Value;

namespace {

// Of slices that groups read, and how many rows along which chunks are their orders repeat after.
constexpr uint64_t kGroupAlignment = 1024;
constexpr int64_t kGroupRows = 64;

}  // namespace

MatrixSlice::MatrixSlice(KernelFrame& frame, const MatrixStep& step, const MatrixOperand& operand, Value* wave)
    : f_(frame),
      b_(frame.b),
      machine_(frame),
      step_(step),
      operand_(operand),
      width_(ByteWidth(step.operand)),
      chunk_(CountChunkElements(step)),
      slice_(CountSliceElements(step)) {
  const int64_t threads = f_.plan.threads, chunks = operand_.tile_rows * kRowChunks;
  shared_ = f_.AddShared(PrimitiveType::kS32, std::max(1, operand_.stages) * chunks * kChunkBytes / 4);
  if (step_.family == MatrixFamily::kGroup)
    llvm::cast<llvm::GlobalVariable>(shared_)->setAlignment(llvm::Align(kGroupAlignment));
  if (operand_.gather != nullptr) {
    gathered_.emplace(b_, *operand_.gather, width_);
    const GatheredMatrix& g = *operand_.gather;
    const GatheredMatrix::Chunks chunks_of = g.FindChunks(chunk_);
    if (chunks_of == GatheredMatrix::Chunks::kAlongK) mode_ = Mode::kAlongK;
    if (chunks_of == GatheredMatrix::Chunks::kAlongRows) mode_ = Mode::kAlongRows;
    walks_ = mode_ != Mode::kElements && GatheredMatrix::InnerSize(g.k) % slice_ == 0 && operand_.k % slice_ == 0;
  } else if (operand_.k_stride == 1 && operand_.k >= chunk_) {
    mode_ = Mode::kAlongK;
  } else if (operand_.row_stride == 1 && operand_.rows >= chunk_ && operand_.k >= chunk_) {
    mode_ = Mode::kAlongRows;
  }
  if (operand_.stages > 0) {
    mode_ = operand_.k_stride == 1 ? Mode::kAlongK : Mode::kAlongRows;
    return;
  }
  if (mode_ == Mode::kAlongRows) {
    // A thread loads a square block: one row of the tile's chunk from each element of k.
    const int64_t blocks = chunks / chunk_, across = operand_.tile_rows / chunk_;
    loads_ = static_cast<size_t>(chunk_);
    Value* thread = f_.thread();
    if (blocks < threads) {
      // The first threads load the left operand, the last ones the right one.
      const int64_t first = operand_.is_right ? threads - blocks : 0;
      thread = b_.CreateSub(thread, Number(first));
      Value *number = thread, *limit = Number(blocks);
      if (blocks % step_.wave_size() == 0) {
        number = b_.CreateSub(wave, Number(first / step_.wave_size()));
        limit = Number(blocks / step_.wave_size());
      }
      active_ = b_.CreateICmpULT(number, limit);
    }
    first_ = b_.CreateMul(b_.CreateURem(thread, Number(across)), Number(chunk_));
    // The order of the chunks completes the swizzle where eight threads load blocks of more than one chunk of k.
    Value* order = b_.CreateUDiv(thread, Number(across));
    auto bit = [&](uint32_t mask, int left) {
      Value* bits = b_.CreateAnd(order, b_.getInt32(mask));
      return left > 0 ? b_.CreateShl(bits, Number(left)) : b_.CreateLShr(bits, Number(-left));
    };
    chunk_number_ = chunk_ == 16 ? b_.CreateOr(b_.CreateAnd(order, Number(1)), b_.CreateOr(bit(2, 1), bit(4, -1)))
                                 : b_.CreateOr(bit(1, 2), bit(6, -1));
  } else {
    loads_ = static_cast<size_t>(chunks / threads);
    first_ = b_.CreateLShr(f_.thread(), Number(3));
    chunk_number_ = b_.CreateAnd(f_.thread(), Number(kRowChunks - 1));
  }
  // The alignment that the strides leave. Buffers are aligned, but tiles begin at any row and slices anywhere.
  int64_t common = kChunkBytes / width_;
  for (const int64_t s : operand_.other_strides) common = std::gcd(common, s);
  if (gathered_) {
    // The digit along which chunks lie moves by chunks. Another one may have the stride 1, too: of an image of one
    // feature, the positions in the window and those of the output.
    const GatheredMatrix& g = *operand_.gather;
    const GatheredMatrix::Digit* along = nullptr;
    if (mode_ == Mode::kAlongK && !g.k.empty()) along = &g.k.back();
    if (mode_ == Mode::kAlongRows && !g.rows.empty()) along = &g.rows.back();
    common = std::gcd(common, g.base);
    for (const GatheredMatrix::Space& space : g.spaces) common = std::gcd(common, space.stride);
    for (const std::vector<GatheredMatrix::Digit>* digits : {&g.rows, &g.k}) {
      for (const GatheredMatrix::Digit& d : *digits) {
        if (d.space < 0 && &d != along) common = std::gcd(common, d.stride);
      }
    }
  } else if (mode_ == Mode::kAlongK) {
    common = std::gcd(common, std::gcd(operand_.row_stride, operand_.k));
  } else {
    common = std::gcd(common, std::gcd(operand_.k_stride, operand_.rows));
  }
  alignment_ = static_cast<uint64_t>(common * width_);
  const size_t stores = mode_ == Mode::kAlongRows ? static_cast<size_t>(chunk_) : loads_;
  for (size_t i = 0; i < stores; ++i) {
    Value* row = mode_ == Mode::kAlongRows ? b_.CreateAdd(first_, Number(static_cast<int64_t>(i))) : TileRow(i);
    addresses_.push_back(Address(row, chunk_number_));
  }
}

Value* MatrixSlice::TileRow(size_t load) {
  if (mode_ == Mode::kAlongRows || load == 0) return first_;
  return b_.CreateAdd(first_, Number(static_cast<int64_t>(load) * f_.plan.threads / kRowChunks));
}

Value* MatrixSlice::Address(Value* tile_row, Value* chunk) {
  Value* row = operand_.is_right ? PermuteColumns(b_, step_, tile_row) : tile_row;
  return b_.CreateAdd(b_.CreateMul(row, Number(kRowChunks * kChunkBytes)), SwizzleChunk(b_, step_, row, chunk));
}

Value* MatrixSlice::GetRow(Value* tile_row) {
  if (operand_.rows >= operand_.tile_rows) return tile_row;
  if (HasFewRows()) return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, tile_row, Number(operand_.rows - 1));
  Value* in_chunk = b_.CreateAnd(tile_row, Number(chunk_ - 1));
  return b_.CreateAdd(
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(tile_row, in_chunk), Number(operand_.rows - chunk_)),
      in_chunk);
}

Value* MatrixSlice::IsOriginal(Value* tile_row) {
  if (operand_.rows >= operand_.tile_rows) return nullptr;
  if (!HasFewRows()) tile_row = b_.CreateAnd(tile_row, Number(-chunk_));
  return b_.CreateICmpULT(tile_row, Number(operand_.rows));
}

void MatrixSlice::StartTile(Value* first_row, Value* matrix, Value* first_k) {
  first_k_ = first_k;
  first_row_ = b_.CreateZExt(first_row, b_.getInt64Ty());
  if (operand_.rows >= operand_.tile_rows) {
    first_row_ = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, first_row_,
                                          b_.getInt64(static_cast<uint64_t>(operand_.rows - operand_.tile_rows)));
  }
  matrix_ = b_.CreateZExt(matrix, b_.getInt64Ty());
  offsets_.clear();
  if (operand_.stages > 0) return PrepareCopies();
  if (gathered_) {
    Value* first = b_.CreateTrunc(first_row_, b_.getInt32Ty());
    const size_t rows = mode_ == Mode::kAlongRows ? 1 : loads_;
    for (size_t i = 0; i < rows; ++i) {
      Values values = gathered_->StartRow(b_.CreateAdd(first, GetRow(TileRow(i))));
      if (walks_) {
        const int64_t stride = GatheredMatrix::InnerStride(operand_.gather->k) * width_;
        Value* in_slice = b_.CreateMul(b_.CreateMul(chunk_number_, Number(chunk_)), Number(stride));
        values[0] = b_.CreateAdd(values[0], b_.CreateZExt(in_slice, values[0]->getType()));
      }
      offsets_.insert(offsets_.end(), values.begin(), values.end());
    }
    if (mode_ == Mode::kElements) return;
    if (operand_.gather->HasGaps()) offsets_.push_back(b_.CreatePtrToInt(Zeros(), b_.getInt64Ty()));
    walk_begin_ = offsets_.size();
    if (walks_) {
      const Values walk = gathered_->StartWalk(AbsoluteK(Number(0)));
      offsets_.insert(offsets_.end(), walk.begin(), walk.end());
    }
    return;
  }
  if (mode_ == Mode::kElements) return;
  Value* row = nullptr;
  for (size_t i = 0; i < loads_; ++i) {
    if (row == nullptr || mode_ == Mode::kAlongK) row = GetRow(TileRow(i));
    Value* k = b_.CreateMul(chunk_number_, Number(chunk_));
    if (mode_ == Mode::kAlongRows) k = b_.CreateAdd(k, Number(static_cast<int64_t>(i)));
    offsets_.push_back(b_.CreateAdd(b_.CreateMul(row, Number(operand_.row_stride * width_)),
                                    b_.CreateMul(k, Number(operand_.k_stride * width_))));
  }
}

MatrixSlice::Values MatrixSlice::NextInLoop(const Values& offsets) {
  const auto begin_of_walk = offsets.begin() + static_cast<std::ptrdiff_t>(walks_ ? walk_begin_ : offsets.size());
  Values next;
  for (auto offset = offsets.begin(); offset != begin_of_walk; ++offset)
    next.push_back(machine_.Hide(*offset, /*stays=*/false));
  if (walks_) {
    const Values walk = gathered_->Advance({begin_of_walk, offsets.end()}, slice_);
    next.insert(next.end(), walk.begin(), walk.end());
  }
  return next;
}

// Returns the address of element `k` of the tile's first row.
Value* MatrixSlice::Base(Value* k) {
  auto number = [&](int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); };
  Value* at = b_.CreateAdd(matrix_, b_.CreateMul(first_row_, number(operand_.row_stride)));
  at = b_.CreateAdd(b_.CreateMul(at, number(width_)),
                    b_.CreateMul(b_.CreateZExt(k, b_.getInt64Ty()), number(operand_.k_stride * width_)));
  return b_.CreateGEP(b_.getInt8Ty(), operand_.array, at);
}

Value* MatrixSlice::LoadVector(Value* base, Value* offset) {
  return b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), 4),
                              b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateZExt(offset, b_.getInt64Ty())),
                              llvm::Align(alignment_));
}

MatrixSlice::Values MatrixSlice::LoadIfActive(const std::function<Values()>& load) {
  if (active_ == nullptr) return load();
  Values inside;
  llvm::BasicBlock* from = nullptr;
  f_.scopes.If(active_, [&] {
    inside = load();
    from = b_.GetInsertBlock();
  });
  Values loaded;
  const std::vector<llvm::BasicBlock*> before(llvm::pred_begin(b_.GetInsertBlock()),
                                              llvm::pred_end(b_.GetInsertBlock()));
  for (Value* v : inside) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    for (llvm::BasicBlock* block : before)
      phi->addIncoming(block == from ? v : llvm::PoisonValue::get(v->getType()), block);
    loaded.push_back(phi);
  }
  return loaded;
}

MatrixSlice::Values MatrixSlice::Load(Value* k, const Values& offsets) {
  if (gathered_) return LoadGathered(k, offsets);
  Value* base = Base(k);
  return LoadIfActive([&] {
    Values loaded;
    for (size_t i = 0; i < loads_; ++i) {
      loaded.push_back(
          mode_ == Mode::kElements
              ? LoadElements(TileRow(i),
                             b_.CreateAdd(k, b_.CreateZExt(b_.CreateMul(chunk_number_, Number(chunk_)), k->getType())))
              : LoadVector(base, offsets[i]));
    }
    return loaded;
  });
}

// A chunk that would reach beyond the end of k begins earlier, and its elements that belong to the chunk before are
// zeros. Both operands of a product do the same, so that the elements of their chunks belong to the same k.
MatrixSlice::End MatrixSlice::FindEnd(int64_t k) {
  Value* wanted = b_.CreateAdd(Number(k), b_.CreateMul(chunk_number_, Number(chunk_)));
  Value* begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, wanted, Number(operand_.k - chunk_));
  return {begin, b_.CreateSub(wanted, begin)};
}

MatrixSlice::Values MatrixSlice::LoadEnd(int64_t k) {
  if (operand_.k < chunk_) return Load(b_.getInt64(static_cast<uint64_t>(k)), offsets_);
  const End end = FindEnd(k);
  Values loaded;
  if (gathered_) {
    if (mode_ == Mode::kElements) return LoadGatheredElements(end.begin, offsets_);
    return LoadIfActive([&] { return LoadGatheredChunks(gathered_->StartTerm(AbsoluteK(end.begin)), offsets_); });
  }
  if (mode_ == Mode::kElements) {
    for (size_t i = 0; i < loads_; ++i) loaded.push_back(LoadElements(TileRow(i), end.begin));
    return loaded;
  }
  const int64_t first = std::max<int64_t>(0, operand_.k - slice_);
  Value* in_slice = b_.CreateSub(end.begin, Number(first));
  Value* moved = b_.CreateMul(b_.CreateSub(in_slice, b_.CreateMul(chunk_number_, Number(chunk_))),
                              Number(operand_.k_stride * width_));
  Value* base = Base(b_.getInt64(static_cast<uint64_t>(first)));
  return LoadIfActive([&] {
    for (size_t i = 0; i < loads_; ++i) loaded.push_back(LoadVector(base, b_.CreateAdd(offsets_[i], moved)));
    return loaded;
  });
}

void MatrixSlice::StoreEnd(Values loaded, int64_t k) {
  if (operand_.k < chunk_) return Store(loaded);
  const End end = FindEnd(k);
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (mode_ == Mode::kAlongRows) {
      Value* zero = b_.CreateICmpULT(Number(static_cast<int64_t>(i)), end.zeros);
      loaded[i] = b_.CreateSelect(zero, llvm::Constant::getNullValue(loaded[i]->getType()), loaded[i]);
    } else {
      loaded[i] = ZeroBefore(loaded[i], end.zeros);
    }
  }
  Store(loaded);
}

// Replaces the first elements of the chunk by zeros.
Value* MatrixSlice::ZeroBefore(Value* chunk, Value* count) {
  llvm::Type* whole = chunk->getType();
  auto* type =
      llvm::FixedVectorType::get(b_.getIntNTy(static_cast<unsigned>(8 * width_)), static_cast<unsigned>(chunk_));
  std::vector<llvm::Constant*> numbers;
  for (int64_t e = 0; e < chunk_; ++e) numbers.push_back(b_.getInt32(static_cast<uint32_t>(e)));
  Value* zero =
      b_.CreateICmpULT(llvm::ConstantVector::get(numbers), b_.CreateVectorSplat(static_cast<unsigned>(chunk_), count));
  return b_.CreateBitCast(b_.CreateSelect(zero, llvm::Constant::getNullValue(type), b_.CreateBitCast(chunk, type)),
                          whole);
}

// Loads a chunk whose elements are not neighbours in memory, or of which some do not exist.
Value* MatrixSlice::LoadElements(Value* tile_row, Value* first_k) {
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(8 * width_));
  Value* chunk = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, static_cast<unsigned>(chunk_)));
  auto number = [&](int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); };
  Value* row =
      b_.CreateAdd(matrix_, b_.CreateMul(b_.CreateAdd(first_row_, b_.CreateZExt(GetRow(tile_row), b_.getInt64Ty())),
                                         number(operand_.row_stride)));
  first_k = b_.CreateZExt(first_k, b_.getInt64Ty());
  for (int64_t e = 0; e < chunk_; ++e) {
    Value* k = b_.CreateAdd(first_k, number(e));
    Value* exists = b_.CreateICmpULT(k, number(operand_.k));
    k = b_.CreateSelect(exists, k, number(0));
    Value* from = b_.CreateGEP(element, operand_.array, b_.CreateAdd(row, b_.CreateMul(k, number(operand_.k_stride))));
    Value* v = b_.CreateAlignedLoad(element, from, llvm::Align(static_cast<uint64_t>(width_)));
    chunk = b_.CreateInsertElement(chunk, b_.CreateSelect(exists, v, llvm::Constant::getNullValue(element)),
                                   static_cast<uint64_t>(e));
  }
  return b_.CreateBitCast(chunk, llvm::FixedVectorType::get(b_.getInt32Ty(), 4));
}

// ---- Gathered operands.

Value* MatrixSlice::AbsoluteK(Value* k) {
  k = b_.CreateZExtOrTrunc(k, b_.getInt32Ty());
  return first_k_ == nullptr ? k : b_.CreateAdd(k, first_k_);
}

MatrixSlice::Values MatrixSlice::LoadGathered(Value* k, const Values& offsets) {
  if (walks_) {
    return LoadIfActive([&] { return LoadGatheredChunks(absl::MakeConstSpan(offsets).subspan(walk_begin_), offsets); });
  }
  Value* at = b_.CreateAdd(b_.CreateZExtOrTrunc(k, b_.getInt32Ty()), b_.CreateMul(chunk_number_, Number(chunk_)));
  if (mode_ == Mode::kElements) return LoadGatheredElements(at, offsets);
  return LoadIfActive([&] { return LoadGatheredChunks(gathered_->StartTerm(AbsoluteK(at)), offsets); });
}

MatrixSlice::Values MatrixSlice::LoadGatheredChunks(absl::Span<Value* const> term, const Values& rows) {
  Value* base =
      b_.CreateGEP(b_.getInt8Ty(), operand_.array, b_.CreateMul(matrix_, b_.getInt64(static_cast<uint64_t>(width_))));
  Value* zeros = nullptr;
  if (operand_.gather->HasGaps()) zeros = b_.CreateIntToPtr(rows[walk_begin_ - 1], base->getType());
  const size_t count = gathered_->row_values();
  Values loaded;
  Value *from = nullptr, *step = nullptr;
  for (size_t i = 0; i < loads_; ++i) {
    if (i == 0 || mode_ == Mode::kAlongK) {
      const GatheredAddresses::Address at = gathered_->Find(absl::MakeConstSpan(rows).subspan(i * count, count), term);
      from = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateZExt(at.offset, b_.getInt64Ty()));
      // The elements of k of a thread's block follow one another in the innermost digit.
      step = b_.getInt64(static_cast<uint64_t>(GatheredMatrix::InnerStride(operand_.gather->k) * width_));
      if (at.exists != nullptr) {
        from = b_.CreateSelect(at.exists, from, zeros);
        step = b_.CreateSelect(at.exists, step, b_.getInt64(0));
      }
    } else {
      from = b_.CreateGEP(b_.getInt8Ty(), from, step);
    }
    loaded.push_back(
        b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), 4), from, llvm::Align(alignment_)));
  }
  return loaded;
}

// Returns the address of a chunk of zeros, which is read in place of elements that do not exist.
Value* MatrixSlice::Zeros() {
  if (zeros_ == nullptr) {
    auto* data = llvm::ConstantAggregateZero::get(llvm::ArrayType::get(b_.getInt8Ty(), kChunkBytes));
    auto* zeros =
        new llvm::GlobalVariable(*f_.elements.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data,
                                 "", nullptr, llvm::GlobalValue::NotThreadLocal, kGlobalAddressSpace);
    zeros->setAlignment(llvm::Align(kChunkBytes));
    zeros_ = zeros;
  }
  return zeros_;
}

MatrixSlice::Values MatrixSlice::LoadGatheredElements(Value* first_k, const Values& rows) {
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(8 * width_));
  const size_t count = gathered_->row_values();
  std::vector<Values> terms;
  Values in_k;
  for (int64_t e = 0; e < chunk_; ++e) {
    Value* k = b_.CreateAdd(first_k, Number(e));
    in_k.push_back(b_.CreateICmpULT(k, Number(operand_.k)));
    terms.push_back(gathered_->StartTerm(AbsoluteK(b_.CreateSelect(in_k.back(), k, Number(0)))));
  }
  Value* base = b_.CreateGEP(element, operand_.array, matrix_);
  Values loaded;
  for (size_t i = 0; i < loads_; ++i) {
    Value* chunk = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, static_cast<unsigned>(chunk_)));
    for (size_t e = 0; e < static_cast<size_t>(chunk_); ++e) {
      const GatheredAddresses::Address at =
          gathered_->Find(absl::MakeConstSpan(rows).subspan(i * count, count), terms[e]);
      Value* offset = at.offset;
      if (at.exists != nullptr)
        offset = b_.CreateSelect(at.exists, offset, llvm::Constant::getNullValue(offset->getType()));
      Value* from = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateZExt(offset, b_.getInt64Ty()));
      Value* v = b_.CreateAlignedLoad(element, from, llvm::Align(static_cast<uint64_t>(width_)));
      Value* exists = at.exists == nullptr ? in_k[e] : b_.CreateAnd(at.exists, in_k[e]);
      chunk = b_.CreateInsertElement(chunk, b_.CreateSelect(exists, v, llvm::Constant::getNullValue(element)), e);
    }
    loaded.push_back(b_.CreateBitCast(chunk, llvm::FixedVectorType::get(b_.getInt32Ty(), 4)));
  }
  return loaded;
}

// Makes chunks along k, one for each row, from chunks along the rows, one for each element of k.
MatrixSlice::Values MatrixSlice::Transpose(const Values& rows) {
  const size_t count = rows.size(), words = 4, in_word = count / words;  // elements in a word
  if (count == 2) {                                                      // f64, of two words each
    return {b_.CreateShuffleVector(rows[0], rows[1], {0, 1, 4, 5}),
            b_.CreateShuffleVector(rows[0], rows[1], {2, 3, 6, 7})};
  }
  auto word = [&](size_t row, size_t w) { return b_.CreateExtractElement(rows[row], static_cast<uint64_t>(w)); };
  using Bytes = MatrixMachine::Bytes;
  auto pick = [&](Value* high, Value* low, Bytes bytes) { return machine_.PickBytes(high, low, bytes); };
  std::vector<Values> out(count, Values(words));  // by row, by word
  for (size_t w = 0; w < words; ++w) {
    for (size_t p = 0; p < words; ++p) {
      if (in_word == 1) {
        out[w][p] = word(p, w);
      } else if (in_word == 2) {
        Value *low = word(2 * p, w), *high = word(2 * p + 1, w);
        out[2 * w][p] = pick(high, low, Bytes::kLowHalves);
        out[2 * w + 1][p] = pick(high, low, Bytes::kHighHalves);
      } else {
        Value *a = word(4 * p, w), *b = word(4 * p + 1, w), *c = word(4 * p + 2, w), *d = word(4 * p + 3, w);
        Value *first = pick(b, a, Bytes::kLowPairs), *second = pick(d, c, Bytes::kLowPairs);
        out[4 * w][p] = pick(second, first, Bytes::kLowHalves);
        out[4 * w + 1][p] = pick(second, first, Bytes::kHighHalves);
        first = pick(b, a, Bytes::kHighPairs), second = pick(d, c, Bytes::kHighPairs);
        out[4 * w + 2][p] = pick(second, first, Bytes::kLowHalves);
        out[4 * w + 3][p] = pick(second, first, Bytes::kHighHalves);
      }
    }
  }
  Values result;
  for (const Values& row : out) {
    Value* v = llvm::PoisonValue::get(rows[0]->getType());
    for (size_t p = 0; p < words; ++p) v = b_.CreateInsertElement(v, row[p], static_cast<uint64_t>(p));
    result.push_back(v);
  }
  return result;
}

void MatrixSlice::Store(const Values& loaded) {
  auto store = [&] {
    Values chunks = mode_ == Mode::kAlongRows ? Transpose(loaded) : loaded;
    if (step_.rounds_operands) {
      for (Value*& chunk : chunks) chunk = Round(chunk);
    }
    for (size_t i = 0; i < chunks.size(); ++i)
      b_.CreateAlignedStore(chunks[i], b_.CreateGEP(b_.getInt8Ty(), shared_, addresses_[i]), llvm::Align(kChunkBytes));
  };
  if (active_ == nullptr) return store();
  f_.scopes.If(active_, store);
}

Value* MatrixSlice::Round(Value* chunk) {
  for (uint64_t w = 0; w < 4; ++w)
    chunk = b_.CreateInsertElement(chunk, machine_.RoundToTf32(b_.CreateExtractElement(chunk, w)), w);
  return chunk;
}

Value* MatrixSlice::LoadChunk(Value* row, Value* chunk, int64_t more_rows, int64_t more_chunks) {
  Value* at = b_.CreateAdd(b_.CreateMul(row, Number(kRowChunks * kChunkBytes)), SwizzleChunk(b_, step_, row, chunk));
  // The swizzle is linear: the constant parts of row and chunk flip the bits of its own swizzle.
  at = b_.CreateXor(at, SwizzleChunk(b_, step_, Number(more_rows), Number(more_chunks)));
  if (read_from_ != nullptr) at = b_.CreateAdd(at, read_from_);
  Value* from = b_.CreateGEP(b_.getInt8Ty(), shared_, at);
  if (more_rows > 0) from = b_.CreateGEP(b_.getInt8Ty(), from, Number(more_rows * kRowChunks * kChunkBytes));
  return b_.CreateAlignedLoad(llvm::FixedVectorType::get(b_.getInt32Ty(), 4), from, llvm::Align(kChunkBytes));
}

// ---- Asynchronous copies.

Value* MatrixSlice::PlaceInSlice(Value* k, Value* group) {
  if (step_.family == MatrixFamily::kGroup) {
    const int64_t in_row = kGroupRows / chunk_;
    Value* place =
        b_.CreateAdd(b_.CreateMul(b_.CreateUDiv(group, Number(in_row)), Number(kGroupRows * slice_ * width_)),
                     b_.CreateMul(k, Number(kGroupRows * width_)));
    Value* chunk = b_.CreateXor(b_.CreateURem(group, Number(in_row)), b_.CreateAnd(k, Number(7)));
    return b_.CreateAdd(place, b_.CreateShl(chunk, Number(4)));
  }
  // Eight lanes that read a matrix have elements of k that differ in bits 0, 3 and 4 (matrix_wave.cc); those that write
  // have different groups.
  Value* key = b_.CreateOr(b_.CreateAnd(k, Number(1)), b_.CreateAnd(b_.CreateLShr(k, Number(2)), Number(6)));
  return b_.CreateAdd(b_.CreateMul(k, Number(operand_.tile_rows * width_)),
                      b_.CreateShl(b_.CreateXor(group, key), Number(4)));
}

void MatrixSlice::PrepareCopies() {
  copies_.clear();
  const int64_t threads = f_.plan.threads;
  const bool clamps = operand_.rows < operand_.tile_rows;
  if (mode_ == Mode::kAlongK) {
    Value *first = b_.CreateLShr(f_.thread(), Number(3)), *chunk = b_.CreateAnd(f_.thread(), Number(kRowChunks - 1));
    Value* k = b_.CreateMul(chunk, Number(chunk_));
    const int64_t step = threads / kRowChunks;
    auto offset = [&](Value* row) {
      return b_.CreateAdd(b_.CreateMul(row, Number(operand_.row_stride * width_)), b_.CreateMul(k, Number(width_)));
    };
    Value* place = Address(first, chunk);
    Value* first_offset = offset(GetRow(first));
    for (int64_t row = 0; row < operand_.tile_rows; row += step) {
      // The rows of a thread differ in bits that its first row does not have, and places are linear.
      Copy copy{first_offset, row * operand_.row_stride * width_, b_.CreateXor(place, Address(Number(row), Number(0))),
                k};
      if (clamps) copy.offset = offset(GetRow(b_.CreateAdd(first, Number(row)))), copy.more_bytes = 0;
      copies_.push_back(copy);
    }
    return;
  }
  const int64_t across = operand_.tile_rows / chunk_, step = threads / across;
  Value *first = b_.CreateUDiv(f_.thread(), Number(across)), *group = b_.CreateURem(f_.thread(), Number(across));
  Value* offset = b_.CreateAdd(b_.CreateMul(GetRow(b_.CreateMul(group, Number(chunk_))), Number(width_)),
                               b_.CreateMul(first, Number(operand_.k_stride * width_)));
  Value* place = PlaceInSlice(first, group);
  for (int64_t k = 0; k < slice_; k += step) {
    copies_.push_back({offset, k * operand_.k_stride * width_, b_.CreateXor(place, PlaceInSlice(Number(k), Number(0))),
                       b_.CreateAdd(first, Number(k))});
  }
}

void MatrixSlice::SetStage(Value* stage) {
  read_from_ = b_.CreateMul(stage, Number(operand_.tile_rows * kRowChunks * kChunkBytes));
}

Value* MatrixSlice::FindRows(Value* row) {
  // 64 rows take as many bytes in both orders.
  Value* at = b_.CreateMul(row, Number(kRowChunks * kChunkBytes));
  if (read_from_ != nullptr) at = b_.CreateAdd(at, read_from_);
  return b_.CreateGEP(b_.getInt8Ty(), shared_, at);
}

void MatrixSlice::BeginCopies(Value* k, Value* stage) {
  llvm::Module& module = *f_.elements.module();
  auto* type =
      llvm::FunctionType::get(b_.getVoidTy(), {shared_->getType(), operand_.array->getType(), b_.getInt32Ty()}, false);
  llvm::FunctionCallee copy_async = module.getOrInsertFunction(kCopyAsync, type);
  Value* to =
      b_.CreateGEP(b_.getInt8Ty(), shared_, b_.CreateMul(stage, Number(operand_.tile_rows * kRowChunks * kChunkBytes)));
  auto* counter = llvm::cast<llvm::IntegerType>(k->getType());
  Value* end = llvm::ConstantInt::get(counter, static_cast<uint64_t>(operand_.k));
  // Slices that do not exist are copied, too, as zeros, so that the number of groups of copies does not vary.
  // Their addresses are those of elements that exist, because a GPU may check them.
  auto bytes = [&](Value* exists) { return b_.CreateSelect(exists, Number(16), Number(0)); };
  Value* slice_exists = b_.CreateICmpULT(k, end);
  const bool is_whole = operand_.k % slice_ == 0;
  Value* base = Base(is_whole ? b_.CreateSelect(slice_exists, k, llvm::ConstantInt::get(counter, 0)) : k);
  for (const Copy& c : copies_) {
    Value* from = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateZExt(c.offset, b_.getInt64Ty()));
    if (c.more_bytes > 0) from = b_.CreateGEP(b_.getInt8Ty(), from, b_.getInt64(static_cast<uint64_t>(c.more_bytes)));
    Value* exists = slice_exists;
    if (!is_whole) {
      exists = b_.CreateICmpULT(b_.CreateAdd(k, b_.CreateZExt(c.k, counter)), end);
      from = b_.CreateSelect(exists, from, operand_.array);
    }
    b_.CreateCall(copy_async, {b_.CreateGEP(b_.getInt8Ty(), to, c.place), from, bytes(exists)});
  }
}

Value* MatrixSlice::LoadTransposed(Value* k, Value* group, int64_t more_k, int64_t more_groups) {
  Value* at = b_.CreateXor(PlaceInSlice(k, group), PlaceInSlice(Number(0), Number(more_groups)));
  at = b_.CreateAdd(at, read_from_);
  Value* from = b_.CreateGEP(b_.getInt8Ty(), shared_, at);
  from = b_.CreateGEP(b_.getInt8Ty(), from, Number(more_k * operand_.tile_rows * width_));
  auto* type = llvm::FunctionType::get(llvm::FixedVectorType::get(b_.getInt32Ty(), 4), {shared_->getType()}, false);
  llvm::FunctionCallee load = f_.elements.module()->getOrInsertFunction(kLoadTransposed, type);
  llvm::cast<llvm::Function>(load.getCallee())->setConvergent();
  return b_.CreateCall(load, {from});
}

}  // namespace backplane::hip
