// Converts shardings and shapes to and from the bytes of OpenXLA's OpSharding and ShapeProto, the form in which hosts
// exchange them.
#ifndef BACKPLANE_CORE_IMPORT_PROTO_SHARDING_PROTO_H_
#define BACKPLANE_CORE_IMPORT_PROTO_SHARDING_PROTO_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/ops/attribute_values.h"
#include "core/types/shape.h"

namespace backplane {

std::string SerializeSharding(const Sharding& sharding);
// Any bytes are safe. Returns InvalidArgument if they are no sharding.
absl::StatusOr<Sharding> ParseSerializedSharding(absl::string_view bytes);

// Serializes a shape. An array without a layout gets the row-major one.
std::string SerializeShape(const Shape& shape);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_PROTO_SHARDING_PROTO_H_
