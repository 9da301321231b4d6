// Finds attention in a program: a product of queries and keys, operations on each of its scores (scale, terms, masks),
// a softmax over the keys, and the product with the values.
//
// Arrays may be read through slices, transposes, reshapes and broadcasts, so heads may lie anywhere in memory and share
// keys. No library is needed here; sdk/engine/kernels/attention.h computes what is found.
#ifndef BACKPLANE_SDK_COMPILER_ATTENTION_H_
#define BACKPLANE_SDK_COMPILER_ATTENTION_H_

#include <optional>
#include <vector>

#include "core/ir/computation.h"

namespace backplane::compiler {

// How an array lies in the memory of another instruction, which is dense and row-major: element strides along the
// queries, the keys and the depth (of queries and keys) or width (of values and results), and where each item begins.
struct AttentionView {
  Instruction* base = nullptr;
  int64_t query_stride = 0, key_stride = 0, inner_stride = 0;
  std::vector<int64_t> offsets;  // by item
};

// An operation on the scores.
struct ScoreOperation {
  enum class Kind {
    kScale,     // score * value
    kAdd,       // score + array
    kSelect,    // score where the array (pred) is `keep`, else value
    kBand,      // score where low <= key - query <= high, else value
    kRoundF16,  // the scores become f16 or bf16
    kRoundBf16,
  };
  Kind kind = Kind::kScale;
  double value = 0;
  bool keep = true;
  int64_t low = 0, high = 0;
  AttentionView array;
};

// Independent items (batch and heads) of `queries` x `keys` scores.
struct Attention {
  int64_t items = 1, queries = 1, keys = 1, depth = 1, width = 1;
  AttentionView query, key, value;
  AttentionView out;                       // in the memory of the root
  std::vector<ScoreOperation> operations;  // in order
  Instruction* scores = nullptr;           // the first product
  Instruction* product = nullptr;          // the second product
};

// Returns the attention whose result is `root`: the second product, or a transpose, a conversion or a reshape of it.
// Does not look at other users of what it finds. Nullopt if there is none, or if it has other element types than f32,
// bf16 and f16.
std::optional<Attention> MatchAttention(Instruction* root);

// Returns the instruction up to which a second product `dot` is followed only by operations that MatchAttention
// accepts.
Instruction* FindAttentionRoot(Instruction* dot);

// Whether another instruction uses the scores, the softmax or another value between the first product and the root.
bool HasOtherUsers(Instruction* root, const Attention& attention);

// The arrays that an attention reads, each once: the operands of its fusion.
std::vector<Instruction*> AttentionOperands(const Attention& attention);

// Attention is represented by a custom fusion of its instructions. Returns what the fusion computes, with the
// parameters of its computation as bases; nullopt for any other instruction.
std::optional<Attention> AsAttention(const Instruction& instruction);

// Creates that fusion for `root`, which the attention was found for. The caller replaces the root.
Instruction* MakeAttentionFusion(Computation* c, Instruction* root, const Attention& attention);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_ATTENTION_H_
