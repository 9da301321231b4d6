// Brings slices of an operand of a matrix product from global to shared memory, and parts of them to registers.
//
// An operand is a matrix of rows x k. The rows of the right operand are its columns. The threads of a block load a
// slice of a tile's rows into registers (Load), 16 bytes at a time wherever neighbours along k or along the rows are
// neighbours in memory, and store it later (Store), so that loads overlap with products. Blocks of elements that are
// neighbours along the rows are transposed in registers.
//
// Nothing beyond the matrix is read. A tile that would reach over the last row begins earlier. Where the matrix has
// fewer rows than a tile, the last rows stand in for the missing ones (GetRow). If the last slice along k is not whole,
// LoadEnd and StoreEnd copy it, with zeros beyond the end.
//
// A gathered operand (gathered_matrix.h) has 16 bytes together where its innermost digits permit it, which are then
// digits without a space. A thread computes the addresses of its rows once for a tile, and what the window adds to them
// once for a slice. Chunks that do not exist are read from an array of zeros.
//
// With stages (MatrixTile), shared memory has several slices, and the GPU copies to one (BeginCopies) while threads
// read another. The chunks are then those of memory: where neighbours along the rows are neighbours in memory, shared
// memory has for each element of k a row of chunks along the rows, and lanes transpose as they read (LoadTransposed).
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_SLICE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_SLICE_H_

#include <functional>
#include <optional>
#include <vector>

#include "plugins/hip/compiler/gathered_addresses.h"
#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/matrix_machine.h"
#include "plugins/hip/compiler/matrix_tile.h"

namespace backplane::hip {

struct MatrixOperand {
  llvm::Value* array = nullptr;
  int64_t rows = 0, k = 0, row_stride = 0, k_stride = 0;  // of the matrix, in elements
  std::vector<int64_t> other_strides;                     // of the array's further dimensions
  int64_t tile_rows = 0;
  bool is_right = false;
  int stages = 0;                          // as of MatrixTile
  const GatheredMatrix* gather = nullptr;  // null: row_stride and k_stride give the addresses
};

class MatrixSlice {
 public:
  using Values = std::vector<llvm::Value*>;

  // `wave` is the number of the wave in its block; the compiler must know that it is equal in the wave's lanes. The
  // frame and the step must outlive the object.
  MatrixSlice(KernelFrame& frame, const MatrixStep& step, const MatrixOperand& operand, llvm::Value* wave);

  // Begins a tile, given by its first row in the matrix, the matrix's position in the array, and the first element of k
  // of a gathered matrix (null: 0), an i32.
  void StartTile(llvm::Value* first_row, llvm::Value* matrix, llvm::Value* first_k);
  // Returns the row of the matrix that a row of the tile (an i32) stands for.
  llvm::Value* GetRow(llvm::Value* tile_row);
  // Returns whether the row stands for itself, as an i1; null if every row does.
  llvm::Value* IsOriginal(llvm::Value* tile_row);
  // Whether fewer rows than a chunk has elements exist, so that no chunk of rows does.
  bool HasFewRows() const { return operand_.rows < chunk_; }

  // Whether all threads of the block take part in Load and Store.
  bool IsLoadedByAll() const { return active_ == nullptr; }

  // The offsets of the thread's loads, and what else of a gathered matrix the loads of a row need. A loop carries them,
  // because a loop's code then uses them as they are, without a sum of 64 bits for each load (NextInLoop).
  const Values& offsets() const { return offsets_; }
  // Returns the values for the next slice, as ones that the compiler must not take out of the loop.
  Values NextInLoop(const Values& offsets);
  // Loads the slice that begins with element `k` of each row.
  Values Load(llvm::Value* k, const Values& offsets);
  void Store(const Values& loaded);
  // Load and store the last slice, which begins with element `k` and of which only a part exists.
  Values LoadEnd(int64_t k);
  void StoreEnd(Values loaded, int64_t k);
  // For groups: returns the address in shared memory of row `row`, an i32 and a multiple of 64. With stages it is that
  // of the slice which SetStage has chosen.
  llvm::Value* FindRows(llvm::Value* row);
  // Loads chunk `chunk` + `more_chunks` of row `row` + `more_rows` from shared memory, as a vector of 16 bytes. `row`
  // and `chunk` are i32. `more_rows` and `more_chunks` must have no bit in common with any value of `row` and `chunk`.
  llvm::Value* LoadChunk(llvm::Value* row, llvm::Value* chunk, int64_t more_rows = 0, int64_t more_chunks = 0);

  // Chooses the slice (an i32) that is read from now on. Requires stages, as the functions below do.
  void SetStage(llvm::Value* stage);
  // Begins the copies of the slice that begins with element `k` of each row, with zeros beyond the end. The caller
  // waits for them.
  void BeginCopies(llvm::Value* k, llvm::Value* stage);
  // Whether chunks are along the rows. LoadTransposed is then called in place of LoadChunk.
  bool IsTransposed() const { return operand_.stages > 0 && mode_ == Mode::kAlongRows; }
  bool IsCopiedAsync() const { return operand_.stages > 0; }
  // Loads by gpu.load.transposed (gpu_ir.h). The lane gives element `k` + `more_k` of the slice and, along the rows,
  // chunk `group` + `more_groups`. As in LoadChunk, the summands must have no bit in common.
  llvm::Value* LoadTransposed(llvm::Value* k, llvm::Value* group, int64_t more_k, int64_t more_groups);

 private:
  enum class Mode : uint8_t { kAlongK, kAlongRows, kElements };

  // The thread's last chunk: the element of k with which it begins, and how many of its elements are zeros instead.
  struct End {
    llvm::Value *begin, *zeros;
  };
  End FindEnd(int64_t k);
  llvm::Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  // Returns the row of the tile of the thread's load number `load`; with kAlongRows the first row of its block of
  // chunks.
  llvm::Value* TileRow(size_t load);
  llvm::Value* Address(llvm::Value* tile_row, llvm::Value* chunk);
  llvm::Value* Base(llvm::Value* k);
  llvm::Value* LoadVector(llvm::Value* base, llvm::Value* offset);
  llvm::Value* LoadElements(llvm::Value* tile_row, llvm::Value* first_k);
  Values LoadGathered(llvm::Value* k, const Values& offsets);
  Values LoadGatheredChunks(absl::Span<llvm::Value* const> term, const Values& rows);
  Values LoadGatheredElements(llvm::Value* first_k, const Values& rows);
  llvm::Value* Zeros();
  llvm::Value* AbsoluteK(llvm::Value* k);
  llvm::Value* ZeroBefore(llvm::Value* chunk, llvm::Value* count);
  Values Transpose(const Values& rows);
  llvm::Value* Round(llvm::Value* chunk);
  // Runs `load` in those threads that take part.
  Values LoadIfActive(const std::function<Values()>& load);

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  MatrixMachine machine_;
  const MatrixStep& step_;
  const MatrixOperand operand_;
  const int64_t width_, chunk_, slice_;
  Mode mode_ = Mode::kElements;
  size_t loads_ = 0;        // how many loads a thread does
  uint64_t alignment_ = 1;  // of the vectors in global memory, in bytes
  llvm::Value* shared_ = nullptr;
  llvm::Value* active_ = nullptr;                           // whether the thread takes part; null: all do
  llvm::Value *first_ = nullptr, *chunk_number_ = nullptr;  // the row and the chunk of a thread's first load
  Values offsets_, addresses_;
  llvm::Value *first_row_ = nullptr, *matrix_ = nullptr;
  // Of a gathered operand. Where its slices are whole and lie in one position of the window each, offsets_ has a walk
  // behind the rows, and lanes differ in nothing else.
  std::optional<GatheredAddresses> gathered_;
  bool walks_ = false;
  size_t walk_begin_ = 0;
  llvm::Value *first_k_ = nullptr, *zeros_ = nullptr;
  // The members below are used with stages.
  llvm::Value* PlaceInSlice(llvm::Value* k, llvm::Value* group);
  struct Copy {
    llvm::Value* offset = nullptr;  // of the thread's chunk in memory, without `more_bytes`
    int64_t more_bytes = 0;
    llvm::Value* place = nullptr;  // in the slice
    llvm::Value* k = nullptr;      // its element of k in the slice
  };
  void PrepareCopies();
  std::vector<Copy> copies_;
  llvm::Value* read_from_ = nullptr;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_SLICE_H_
