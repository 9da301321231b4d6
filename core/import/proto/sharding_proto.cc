#include "core/import/proto/sharding_proto.h"

#include <climits>

#include "core/import/proto/proto_values.h"

namespace backplane {

std::string SerializeSharding(const Sharding& sharding) {
  proto::OpShardingProto message;
  ShardingToProto(sharding, &message);
  return message.SerializeAsString();
}

absl::StatusOr<Sharding> ParseSerializedSharding(absl::string_view bytes) {
  proto::OpShardingProto message;
  if (bytes.size() > INT_MAX || !message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("the bytes are no OpSharding");
  }
  return ShardingFromProto(message);
}

std::string SerializeShape(const Shape& shape) {
  proto::ShapeProto message;
  ShapeToProto(shape, &message);
  return message.SerializeAsString();
}

}  // namespace backplane
