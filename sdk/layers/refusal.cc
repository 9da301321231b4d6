#include "sdk/layers/refusal.h"

#include "sdk/layers/layer.h"

namespace backplane::layers {
namespace {

class RefusalLayer : public Layer {
 public:
  RefusalLayer(std::string message) : message_(std::move(message)) {}
  const char* name() const override { return "refusal"; }
  bool Wants(Fn fn) const override {
    return GetInfo(fn).extension == nullptr && GetInfo(fn).returns == Returns::kError;
  }
  void Before(Call& call) override {
    // Errors must stay readable.
    if (call.fn == Fn::PJRT_Error_GetCode || call.fn == Fn::PJRT_Error_ForEachPayload) return;
    call.Answer(MakeError(*call.stack, PJRT_Error_Code_FAILED_PRECONDITION, message_));
  }

 private:
  const std::string message_;
};

// The target of the layer. Only calls on errors of the target would get here, and there are none.
template <typename F>
struct Empty;
template <typename R, typename Args>
struct Empty<R (*)(Args*)> {
  static R Call(Args*) { return R(); }
};

}  // namespace

const PJRT_Api* MakeRefusalTable(const std::string& message) {
  static const PJRT_Api* table = [&]() -> const PJRT_Api* {
    auto* target = new PJRT_Api{};
    target->struct_size = PJRT_Api_STRUCT_SIZE;
    target->pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
    target->pjrt_api_version.major_version = PJRT_API_MAJOR;
    target->pjrt_api_version.minor_version = PJRT_API_MINOR;
#define BP_SLOT(name, since) target->name = &Empty<decltype(PJRT_Api::name)>::Call;
#include "sdk/host/slots.def"
#undef BP_SLOT
    std::vector<std::unique_ptr<Layer>> layers;
    layers.push_back(std::make_unique<RefusalLayer>(message));
    absl::StatusOr<std::unique_ptr<Stack>> stack = Stack::Create(target, "refusal", std::move(layers));
    if (!stack.ok()) return nullptr;  // all stacks are in use; a host treats null as a plugin that cannot be used
    return stack->release()->api();
  }();
  return table;
}

}  // namespace backplane::layers
