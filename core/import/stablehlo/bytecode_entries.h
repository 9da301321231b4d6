// The attribute and type tables of a portable artifact. Each entry is decoded once, on first use, so a damaged or
// unknown entry that is not used does no harm. Entries may refer to each other in any order; cycles and excessive depth
// are errors.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_ENTRIES_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_ENTRIES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/import/stablehlo/byte_reader.h"
#include "core/import/stablehlo/bytecode_container.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

class BytecodeEntries {
 public:
  // The container and the arena must outlive this object.
  BytecodeEntries(const BytecodeContainer* container, SourceArena* arena);

  absl::StatusOr<const SourceAttr*> Attribute(uint64_t index);
  absl::StatusOr<const SourceType*> Type(uint64_t index);

  // Read a reference from a record and return its entry. On error `in` fails and null is returned.
  const SourceAttr* ReadAttribute(ByteReader& in);
  const SourceType* ReadType(ByteReader& in);
  // Reads an optional reference, a varint with a flag. Returns null without an error if it is absent.
  const SourceAttr* ReadOptionalAttribute(ByteReader& in);

 private:
  enum State : uint8_t { kNew, kBusy, kDone };
  template <typename T>
  struct Slot {
    State state = kNew;
    T value = nullptr;
    int code = -1;  // binary code of the entry once decoded, with its dialect to tell kinds of entry apart
  };

  const SourceType* DecodeType(const BytecodeContainer::Entry& entry, absl::Status* status);
  const SourceType* DecodeBuiltinType(ByteReader& in, uint64_t code);
  const SourceType* DecodeVhloType(ByteReader& in, uint64_t code);
  const SourceType* DecodeQuantized(ByteReader& in, bool per_axis);
  const SourceType* ReadTensorType(ByteReader& in, TypeKind kind, bool encoded);
  bool ReadTypeList(ByteReader& in, absl::Span<const SourceType* const>* types);

  const SourceAttr* DecodeAttribute(const BytecodeContainer::Entry& entry, absl::Status* status, int* code);
  const SourceAttr* DecodeBuiltinAttribute(ByteReader& in, uint64_t code);
  const SourceAttr* DecodeVhloAttribute(ByteReader& in, uint64_t code);
  const SourceAttr* DecodeVhloMeshAttribute(ByteReader& in, uint64_t code);
  const SourceAttr* DecodeShardyAttribute(ByteReader& in, uint64_t code);
  const SourceAttr* DecodeShardingRule(ByteReader& in);
  const SourceAttr* ReadDictionary(ByteReader& in);
  const SourceAttr* ReadArray(ByteReader& in);
  const SourceAttr* ReadEnum(ByteReader& in, int kind);
  const SourceAttr* ReadDense(ByteReader& in);
  const SourceAttr* ReadI64s(ByteReader& in);
  const SourceAttr* ReadStringAttribute(ByteReader& in);
  absl::string_view ReadString(ByteReader& in);
  uint64_t ReadBits(ByteReader& in, int width);
  const SourceAttr* KeepShardyText(ByteReader& in, absl::string_view text);
  std::string ReadShardyList(ByteReader& in, int code);  // joined by ", "
  std::string ReadShardyText(ByteReader& in, int code);  // without "#sdy.name"
  std::vector<int64_t> ReadI64Vector(ByteReader& in);

  const BytecodeContainer& container_;
  SourceArena& arena_;
  std::vector<Slot<const SourceAttr*>> attributes_;
  std::vector<Slot<const SourceType*>> types_;
  int depth_ = 0;
  int64_t shardy_bytes_ = 0;  // of all texts of Shardy's attributes
};

// Converts the blob of a constant to the form of AttrKind::kDense. The text reader uses it as well, for hexadecimal
// constants. `packed_bits`: i1 may have one bit per element. Returns null and sets *why if sizes do not match.
const SourceAttr* NormalizeConstant(SourceArena& arena, const SourceType* type, absl::string_view blob,
                                    bool packed_bits, std::string* why);

// Creates a resolver that reads locations from the tables again. It owns its copy of the container, which still refers
// to the bytes of the artifact.
std::unique_ptr<LocationResolver> MakeBytecodeLocationResolver(BytecodeContainer container);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_ENTRIES_H_
