// The op tree that both StableHLO readers (portable bytecode and text) produce. Its meaning has not been checked yet.
//
// A SourceModule holds a program in one normal form: op names have no dialect version, attributes are those of the
// newest operation set (older forms are upgraded, omitted ones hold their defaults), and structured StableHLO
// attributes such as dimension numbers are flattened into one attribute per field. The same program read from bytecode,
// from pretty text and from generic text gives the same tree (DumpSource prints it for comparison).
//
// Ownership: everything is allocated in the module's arena and lives as long as the module. Strings and constant bytes
// may point into the program's own bytes, which the caller keeps alive as long as the module. Writing is not
// thread-safe; a finished module may be read from any thread.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::stablehlo {

// An unknown dimension or bound, with the value that both formats use.
inline constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

// Limits of the nesting of input. Deeper programs are errors; they cannot exhaust the stack.
inline constexpr int kMaxRegionDepth = 192;
inline constexpr int kMaxTypeDepth = 64;
inline constexpr int kMaxAttributeDepth = 64;
inline constexpr size_t kMaxRank = 256;
// Limits of the size of types and attributes when written out. A few bytes of bytecode can describe a type of
// astronomical size by sharing its parts.
inline constexpr uint32_t kMaxTypeWeight = 1 << 16;
inline constexpr uint32_t kMaxAttributeWeight = 1 << 22;

// Memory for one module: chunks that are freed together. It may contain only trivially destructible objects.
class SourceArena {
 public:
  SourceArena() = default;
  SourceArena(const SourceArena&) = delete;
  SourceArena& operator=(const SourceArena&) = delete;

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (Allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }
  // Returns an array of n value-initialized elements.
  template <typename T>
  absl::Span<T> NewArray(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (n == 0) return {};
    T* p = static_cast<T*>(Allocate(sizeof(T) * n, alignof(T)));
    for (size_t i = 0; i < n; ++i) new (p + i) T{};
    return absl::Span<T>(p, n);
  }
  template <typename T>
  absl::Span<const T> Copy(absl::Span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (items.empty()) return {};
    T* p = static_cast<T*>(Allocate(sizeof(T) * items.size(), alignof(T)));
    std::memcpy(static_cast<void*>(p), items.data(), sizeof(T) * items.size());
    return absl::Span<const T>(p, items.size());
  }
  template <typename T>
  absl::Span<const T> Copy(const std::vector<T>& items) {
    return Copy(absl::Span<const T>(items.data(), items.size()));
  }
  absl::string_view CopyString(absl::string_view text);
  char* NewBytes(size_t n) { return static_cast<char*>(Allocate(n, 16)); }

 private:
  void* Allocate(size_t size, size_t align);

  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

// Scalar element types. Signless and signed integers of StableHLO are one kind.
enum class ElementKind : uint8_t {
  kBool,
  kI2,
  kI4,
  kI8,
  kI16,
  kI32,
  kI64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kIndex,
  kBF16,
  kF16,
  kF32,
  kF64,
  kTF32,
  kF8E4M3FN,
  kF8E5M2,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF8E4M3B11FNUZ,
  kF8E4M3,
  kF8E3M4,
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kF8E8M0FNU,
};
// Returns the name in StableHLO text: "i1", "ui8", "f8E4M3FN" ...
absl::string_view ElementName(ElementKind kind);
// Returns whether `text` is such a name, and sets *kind. "si8" counts as "i8".
bool ElementFromName(absl::string_view text, ElementKind* kind);
// Returns the width of a value in bits: 1 for i1, 4 for i4, 19 for tf32, 64 for index.
int ElementBits(ElementKind kind);
bool IsFloatElement(ElementKind kind);
bool IsUnsignedElement(ElementKind kind);  // ui*, i1 and index
// Returns the bytes of one element in the data of a constant: one byte for i1 and types narrower than a byte, three for
// tf32.
int ElementStorageBytes(ElementKind kind);

enum class TypeKind : uint8_t {
  kScalar,          // element
  kComplex,         // inner = part type
  kQuantized,       // quantization
  kTensor,          // dims, bounds, inner = element type, encoding
  kUnrankedTensor,  // inner
  kBuffer,          // dims, inner (memref)
  kTuple,           // members
  kFunction,        // members -> results
  kFuture,          // members
  kToken,
  kNone,
  kWitness,
  kOpaque,  // text: a type of a dialect this reader does not know
};

struct SourceType;
struct SourceAttr;

struct SourceQuantization {
  const SourceType* storage = nullptr;    // integer scalar
  const SourceType* expressed = nullptr;  // float scalar
  bool storage_signed = true;
  int64_t axis = -1;  // quantized dimension, -1 when one scale serves all
  int64_t storage_min = 0;
  int64_t storage_max = 0;
  absl::Span<const double> scales;        // one, or one per slice along axis
  absl::Span<const int64_t> zero_points;  // as many as scales
};

struct SourceType {
  TypeKind kind = TypeKind::kNone;
  ElementKind element = ElementKind::kBool;
  const SourceType* inner = nullptr;
  absl::Span<const int64_t> dims;        // kDynamic where unknown
  absl::Span<const int64_t> bounds;      // empty, or one per dimension (kDynamic where unbounded)
  const SourceAttr* encoding = nullptr;  // any other tensor encoding, not interpreted
  absl::Span<const SourceType* const> members;
  absl::Span<const SourceType* const> results;
  const SourceQuantization* quantization = nullptr;
  absl::string_view text;
  uint32_t weight = 1;  // size written out; shared parts count each time
};

// Whether two types are structurally equal.
bool SameType(const SourceType* a, const SourceType* b);
// Returns the type as StableHLO text: "tensor<2x?xf32>", "(tensor<f32>) -> tensor<f32>".
std::string TypeToString(const SourceType* type);
// Sets *count to the number of elements of a static shape. Returns false if a dimension is dynamic or the product
// overflows.
bool CountStaticElements(absl::Span<const int64_t> dims, int64_t* count);
// Returns the bytes of one element of a constant of this element type (scalar, complex or quantized); 0 for any other
// type.
int ConstantElementBytes(const SourceType* element);

struct SourceNamedAttr {
  absl::string_view name;
  const SourceAttr* value = nullptr;
};

enum class AttrKind : uint8_t {
  kUnit,
  kBool,     // integer 0 or 1
  kInteger,  // integer (sign- or zero-extended by its type), type = scalar
  kFloat,    // bits of the format, type = scalar
  kString,   // text; also every symbol name
  kEnum,     // text: the case's name in StableHLO text, "LT", "HIGHEST", "API_VERSION_TYPED_FFI"
  kArray,    // elements
  kDict,     // entries, sorted by name; also structs such as output_operand_alias
  kType,     // type
  kDense,    // type = ranked tensor (static), bytes, splat
  kShardy,   // text: a Shardy attribute as MLIR prints it, "#sdy.sharding<@mesh, [{\"a\"}]>"
  kOpaque,   // text: a form that the readers do not know and do not need
};

struct SourceAttr {
  AttrKind kind = AttrKind::kUnit;
  bool splat = false;
  int64_t integer = 0;
  uint64_t bits = 0;
  const SourceType* type = nullptr;
  // The text, or for kDense the elements in row-major order, little-endian, with ConstantElementBytes() bytes each. An
  // i1 is one byte of 0 or 1, a type narrower than a byte is zero-extended, and a complex number is its real and then
  // its imaginary part. If `splat` is set, there is one element, which is the value of all.
  absl::string_view text;
  absl::Span<const SourceAttr* const> elements;
  absl::Span<const SourceNamedAttr> entries;
  uint32_t weight = 1;  // size written out; shared parts count each time

  const SourceAttr* Find(absl::string_view name) const;  // in entries; null when absent
};

// The number of a location, which the module resolves on request; 0: unknown.
using LocationId = uint32_t;

struct SourceLocation {
  std::string name;  // op name stack, as JAX writes it: "jit(f)/add"
  std::string file;
  int64_t line = 0;
  int64_t column = 0;
};

struct SourceOp;

struct SourceValue {
  const SourceType* type = nullptr;
  const SourceOp* op = nullptr;  // defining op; null for a block argument
  uint32_t index = 0;            // result or argument number
  uint32_t id = 0;               // dense in the module, unique
  LocationId location = 0;       // block arguments only
};

struct SourceBlock {
  absl::Span<SourceValue> arguments;
  absl::Span<SourceOp* const> ops;
};

struct SourceRegion {
  // No block for the body of a declaration, else exactly one block, because StableHLO has structured control flow only.
  absl::Span<SourceBlock> blocks;
};

struct SourceOp {
  absl::string_view name;  // "stablehlo.add", "func.func", "func.call", "sdy.mesh", "chlo.top_k"
  LocationId location = 0;
  absl::Span<const SourceValue* const> operands;
  absl::Span<SourceValue> results;
  absl::Span<const SourceNamedAttr> attributes;  // inherent and discardable ones together, sorted by name
  absl::Span<SourceRegion> regions;

  const SourceAttr* Find(absl::string_view attribute) const;  // null when absent
};

// The largest number of levels of a location that are followed. Chains of call sites grow with the depth of the Python
// stack, but the first frame comes first, so this many levels suffice to find it.
constexpr int kMaxLocationWalk = 64;
// The largest number of nested locations that are read for one location. Locations share their parts, so a few levels
// can name astronomically many.
constexpr int kMaxLocationSteps = 1024;

class LocationResolver {
 public:
  virtual ~LocationResolver() = default;
  // Returns what can be resolved; other fields stay empty. Never fails.
  virtual SourceLocation Resolve(LocationId id) const = 0;
};

class SourceModule {
 public:
  SourceArena& arena() { return arena_; }

  int64_t written_bytes = 0;  // the length of the program
  // "StableHLO_v1.17.0" for bytecode, "" for text.
  absl::string_view producer;
  // The VHLO version of the bytecode as {major, minor, patch}; all zero for text.
  int version[3] = {0, 0, 0};
  absl::string_view name;
  LocationId location = 0;
  absl::Span<const SourceNamedAttr> attributes;
  absl::Span<SourceOp* const> ops;  // top level: func.func, sdy.mesh
  uint32_t value_count = 0;         // every SourceValue::id is below

  const SourceAttr* Find(absl::string_view attribute) const;
  // Returns the top-level op with this symbol name, a function or a mesh; null if there is none.
  const SourceOp* FindSymbol(absl::string_view symbol) const;
  SourceLocation Location(LocationId id) const {
    return resolver && id != 0 ? resolver->Resolve(id) : SourceLocation();
  }

  absl::flat_hash_map<absl::string_view, const SourceOp*> symbols;
  std::unique_ptr<LocationResolver> resolver;

 private:
  SourceArena arena_;
};

struct DumpOptions {
  bool locations = false;
  size_t max_constant_bytes = 64;  // longer constants are shown as a hash of their bytes
};
// Returns the module as text for comparisons and for people. Deterministic, with one op per line; equal trees give
// equal text.
std::string DumpSource(const SourceModule& module, const DumpOptions& options = {});
std::string AttrToString(const SourceAttr* attr, const DumpOptions& options = {});

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_H_
