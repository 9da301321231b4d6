// The outermost layer of a portable artifact: header, sections, strings, dialect and op names, and the offsets of
// attributes, types and properties. Does not interpret their contents.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_CONTAINER_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_CONTAINER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::stablehlo {

struct BytecodeContainer {
  struct OpName {
    absl::string_view dialect;  // "vhlo"
    absl::string_view name;     // "add_v1"
    bool registered = true;
  };
  // One attribute or type: its dialect and its bytes, binary or assembly text.
  struct Entry {
    absl::string_view dialect;
    absl::string_view bytes;
    uint64_t origin = 0;  // file offset of the bytes
    bool binary = true;
  };
  struct Blob {
    absl::string_view bytes;
    uint64_t origin = 0;
  };

  uint64_t layout_version = 0;  // of the bytecode, 0..6
  absl::string_view producer;   // "StableHLO_v1.17.0"
  int version[3] = {0, 0, 0};   // from the producer
  std::vector<absl::string_view> strings;
  std::vector<OpName> op_names;
  std::vector<Entry> attributes;
  std::vector<Entry> types;
  std::vector<Blob> properties;
  Blob ir;
};

// Whether the bytes begin like MLIR bytecode of any dialect.
bool LooksLikeBytecode(absl::string_view bytes);

// Reads the container. The result refers to `bytes`, which must outlive it. Returns InvalidArgument with the section
// and the byte offset.
absl::StatusOr<BytecodeContainer> ReadBytecodeContainer(absl::string_view bytes);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_BYTECODE_CONTAINER_H_
