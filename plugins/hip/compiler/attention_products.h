// How the threads of a block compute the scores of a tile of queries and keys, and add the products of the weights with
// a tile of values. Each kind of matrix instruction has a class of its own, and fused multiply-adds have one.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PRODUCTS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PRODUCTS_H_

#include <memory>
#include <vector>

#include "plugins/hip/compiler/kernel_frame.h"
#include "plugins/hip/compiler/matrix_machine.h"
#include "sdk/compiler/attention.h"

namespace backplane::hip {

// An array of queries, keys or values of one item.
struct AttentionRows {
  llvm::Value* array = nullptr;
  llvm::Value* offset = nullptr;  // of the item, in elements; i64
  PrimitiveType type{};
  int64_t rows = 1, row_stride = 0;  // those that exist
  int64_t elements = 1, inner_stride = 0;
  bool is_aligned = false;  // HasAlignedRows
};

class AttentionProducts {
 public:
  using Values = std::vector<llvm::Value*>;

  static std::unique_ptr<AttentionProducts> Make(KernelFrame& frame, const compiler::Attention& attention,
                                                 const AttentionPlan& plan);
  virtual ~AttentionProducts() = default;

  // A thread has scores of rows() queries, of columns() keys for each, and results of widths() elements for each. All
  // are f32 scalars; those of row r are r * columns() (or widths()) and what follows. The functions return the numbers
  // of queries and keys in the tile, and of elements in the result, as i32.
  virtual int64_t rows() const = 0;
  virtual int64_t columns() const = 0;
  virtual int64_t widths() const = 0;
  virtual llvm::Value* Row(int64_t r) = 0;
  virtual llvm::Value* Column(int64_t c) = 0;
  virtual llvm::Value* Width(int64_t w) = 0;
  // How many neighbouring results of a row are neighbours in the array.
  virtual int64_t run() const = 0;
  // Which of a row's results is the sum of its weights; -1: none.
  virtual int64_t sum_column() const { return -1; }
  // Returns the masks that combine a row's values: the lanes that share a row have numbers that differ by exclusive or
  // with these masks, so one Exchange for each mask brings the values of all of them to each.
  virtual std::vector<int> row_masks() const = 0;
  // Returns `value` (f32) of the lane whose number differs by one of the masks.
  virtual llvm::Value* Exchange(llvm::Value* value, int mask);

  // Begins a tile of queries, from `first_query` (i32) on. Rows that do not exist are those of the last query.
  virtual void StartQueries(const AttentionRows& queries, llvm::Value* first_query) = 0;
  // Brings the tile of keys and values from key `first_key` (i32) on to the part `stage` (i32) of shared memory, with
  // zeros for those that do not exist. Barriers, and the wait for asynchronous copies, are the caller's.
  virtual void CopyTile(const AttentionRows& keys, const AttentionRows& values, llvm::Value* first_key,
                        llvm::Value* stage) = 0;
  virtual Values ComputeScores(llvm::Value* stage) = 0;
  // Adds the product of the weights, which have the places of the scores, with the values.
  virtual void AddProducts(const Values& weights, llvm::Value* stage, Values& results) = 0;

 protected:
  static std::unique_ptr<AttentionProducts> MakeMatrixProducts(KernelFrame& frame, const compiler::Attention& attention,
                                                               const AttentionPlan& plan);
  explicit AttentionProducts(KernelFrame& frame) : f_(frame), b_(frame.b), machine_(frame) {}

  llvm::Value* KeepExchange(llvm::Value* word);
  llvm::Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  // Returns the address of element `element` (i32) of row `row` (i32) of the array.
  llvm::Value* ComputeAddress(const AttentionRows& rows, llvm::Value* row, llvm::Value* element);
  // Loads the element as f32; zero if it or its row does not exist.
  llvm::Value* LoadElement(const AttentionRows& rows, llvm::Value* row, llvm::Value* element);
  // Loads 16 bytes of a narrow type, from element `element`, a multiple of 8, as <4 x i32>.
  llvm::Value* LoadChunk(const AttentionRows& rows, llvm::Value* row, llvm::Value* element);

  KernelFrame& f_;
  llvm::IRBuilder<>& b_;
  MatrixMachine machine_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PRODUCTS_H_
