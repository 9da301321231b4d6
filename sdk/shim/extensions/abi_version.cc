// May an executable run here? Asked before it is loaded, of the plugin's name and build.
#include "api/extensions/abi_version.h"

#include "absl/strings/str_cat.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"
#include "sdk/shim/wire.h"

// Both kinds of version say the same two things.
struct PJRT_RuntimeAbiVersion {
  std::string platform, build;
};
struct PJRT_ExecutableAbiVersion {
  std::string platform, build;
};

namespace backplane::shim {
namespace {

constexpr absl::string_view kAbiMagic = "backplane.abi.1";

// Changes with the layout of what the plugin serializes.
std::string Build() { return absl::StrCat("backplane ", PJRT_API_MAJOR, ".", PJRT_API_MINOR, " executable 1"); }

template <typename Version>
Version* Current() {
  return new Version{Plugin().backend->platform_name(), Build()};
}

template <typename Version>
std::string ToProto(const Version& v) {
  WireWriter out;
  out.Bytes(1, kAbiMagic);
  out.Bytes(2, v.platform);
  out.Bytes(3, v.build);
  return out.Take();
}

template <typename Version>
absl::StatusOr<Version*> FromProto(const char* bytes, size_t size) {
  auto version = std::make_unique<Version>();
  bool magic = false;
  WireReader in(absl::string_view(bytes, size));
  while (in.Next()) {
    if (in.field == 1) magic = in.bytes == kAbiMagic;
    if (in.field == 2) version->platform = std::string(in.bytes);
    if (in.field == 3) version->build = std::string(in.bytes);
  }
  if (!in.ok() || !magic) return absl::InvalidArgumentError("abi version: these bytes are none of ours");
  return version.release();
}

template <typename Other>
absl::Status Compatible(const PJRT_RuntimeAbiVersion& runtime, const Other& other) {
  if (runtime.platform == other.platform && runtime.build == other.build) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("abi version: made for ", other.platform, ", ", other.build,
                                                    "; this is ", runtime.platform, ", ", runtime.build));
}

template <typename Args, typename Version>
absl::Status PutProto(Args& a, const Version& v) {
  auto* holder = new OwnedBytes{ToProto(v)};
  a.serialized_proto = holder->bytes.data();
  a.serialized_proto_size = holder->bytes.size();
  a.serialized_proto_holder = reinterpret_cast<PJRT_SerializedProto*>(holder);
  a.serialized_proto_deleter = &DeleteOwnedBytes<PJRT_SerializedProto>;
  return absl::OkStatus();
}

absl::Status OfClient(PJRT_Client_RuntimeAbiVersion_Args& a) {
  BP_REQUIRE(a.client);
  a.abi_version = Current<PJRT_RuntimeAbiVersion>();
  return absl::OkStatus();
}

absl::Status OfExecutable(PJRT_Executable_GetAbiVersion_Args& a) {
  BP_REQUIRE(a.executable);
  a.abi_version = Current<PJRT_ExecutableAbiVersion>();
  return absl::OkStatus();
}

absl::Status RuntimeDestroy(PJRT_RuntimeAbiVersion_Destroy_Args& a) {
  delete a.abi_version;
  return absl::OkStatus();
}

absl::Status WithRuntime(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args& a) {
  BP_REQUIRE(a.abi_version);
  BP_REQUIRE(a.other_abi_version);
  return Compatible(*a.abi_version, *a.other_abi_version);
}

absl::Status WithExecutable(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args& a) {
  BP_REQUIRE(a.abi_version);
  BP_REQUIRE(a.executable_abi_version);
  return Compatible(*a.abi_version, *a.executable_abi_version);
}

absl::Status RuntimeToProto(PJRT_RuntimeAbiVersion_ToProto_Args& a) {
  BP_REQUIRE(a.abi_version);
  return PutProto(a, *a.abi_version);
}

absl::Status RuntimePlatform(PJRT_RuntimeAbiVersion_PlatformId_Args& a) {
  BP_REQUIRE(a.abi_version);
  a.platform_id = Hash64(a.abi_version->platform);
  return absl::OkStatus();
}

absl::Status ExecutableDestroy(PJRT_ExecutableAbiVersion_Destroy_Args& a) {
  delete a.abi_version;
  return absl::OkStatus();
}

absl::Status ExecutableToProto(PJRT_ExecutableAbiVersion_ToProto_Args& a) {
  BP_REQUIRE(a.abi_version);
  return PutProto(a, *a.abi_version);
}

absl::Status ExecutablePlatform(PJRT_ExecutableAbiVersion_PlatformId_Args& a) {
  BP_REQUIRE(a.abi_version);
  a.platform_id = Hash64(a.abi_version->platform);
  return absl::OkStatus();
}

absl::Status RuntimeFromProto(PJRT_RuntimeAbiVersion_FromProto_Args& a) {
  BP_REQUIRE(a.serialized_proto);
  ASSIGN_OR_RETURN(a.abi_version, FromProto<PJRT_RuntimeAbiVersion>(a.serialized_proto, a.serialized_proto_size));
  return absl::OkStatus();
}

absl::Status ExecutableFromProto(PJRT_ExecutableAbiVersion_FromProto_Args& a) {
  BP_REQUIRE(a.serialized_proto);
  ASSIGN_OR_RETURN(a.abi_version, FromProto<PJRT_ExecutableAbiVersion>(a.serialized_proto, a.serialized_proto_size));
  return absl::OkStatus();
}

}  // namespace

PJRT_Extension_Base* AbiVersionExtension() {
  static PJRT_AbiVersion_Extension extension = [] {
    PJRT_AbiVersion_Extension e{};
    e.base = {PJRT_AbiVersion_Extension_STRUCT_SIZE, PJRT_Extension_Type_AbiVersion, nullptr};
    e.client_runtime_abi_version = BP_ENTRY(PJRT_Client_RuntimeAbiVersion, &OfClient);
    e.executable_get_abi_version = BP_ENTRY(PJRT_Executable_GetAbiVersion, &OfExecutable);
    e.runtime_abi_version_destroy = BP_ENTRY(PJRT_RuntimeAbiVersion_Destroy, &RuntimeDestroy);
    e.runtime_abi_version_is_compatible_with_runtime =
        BP_ENTRY(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime, &WithRuntime);
    e.runtime_abi_version_is_compatible_with_executable =
        BP_ENTRY(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable, &WithExecutable);
    e.runtime_abi_version_to_proto = BP_ENTRY(PJRT_RuntimeAbiVersion_ToProto, &RuntimeToProto);
    e.runtime_abi_version_platform_id = BP_ENTRY(PJRT_RuntimeAbiVersion_PlatformId, &RuntimePlatform);
    e.executable_abi_version_destroy = BP_ENTRY(PJRT_ExecutableAbiVersion_Destroy, &ExecutableDestroy);
    e.executable_abi_version_to_proto = BP_ENTRY(PJRT_ExecutableAbiVersion_ToProto, &ExecutableToProto);
    e.executable_abi_version_platform_id = BP_ENTRY(PJRT_ExecutableAbiVersion_PlatformId, &ExecutablePlatform);
    e.runtime_abi_version_from_proto = BP_ENTRY(PJRT_RuntimeAbiVersion_FromProto, &RuntimeFromProto);
    e.executable_abi_version_from_proto = BP_ENTRY(PJRT_ExecutableAbiVersion_FromProto, &ExecutableFromProto);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
