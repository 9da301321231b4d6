// The checks of an execution: its lists of arguments, which of them it consumes, and its lists of results.
#include "base/mutex.h"
#include "sdk/layers/validate/layer_impl.h"

namespace backplane::layers {
namespace {

constexpr Argument kElement = {Fn::PJRT_LoadedExecutable_Execute,
                               "argument_lists",
                               0,
                               sizeof(void*),
                               Direction::USES,
                               Object::Buffer,
                               true,
                               false};

using Args = PJRT_LoadedExecutable_Execute_Args;

template <typename F>
void ForEachArgument(const Args* a, F use) {
  for (size_t d = 0; d < a->num_devices; ++d) {
    if (a->argument_lists[d] == nullptr) continue;
    for (size_t i = 0; i < a->num_args; ++i) {
      if (PJRT_Buffer* buffer = a->argument_lists[d][i]; buffer != nullptr) use(i, buffer);
    }
  }
}

bool HasArguments(const Args* a) { return Has(a, &Args::num_args) && a->argument_lists != nullptr; }

}  // namespace

void Program::RecordExecution(size_t num_arguments, const std::vector<uint64_t>& may_consume) {
  MutexLock lock(mutex_);
  if (HasLearned()) return;
  if (consumes_.empty()) {
    num_arguments_ = num_arguments;
    consumes_.resize((num_arguments + 63) / 64 + 1);
  }
  if (num_arguments != num_arguments_) return;  // a plugin that accepts this does not report what it consumes
  for (size_t i = 0; i < may_consume.size() && i < consumes_.size(); ++i) consumes_[i] |= may_consume[i];
  observed_.fetch_add(1, std::memory_order_release);
}

bool ValidateLayer::CheckExecute(Call& call, const void** client) {
  const auto* a = call.As<Args>();
  if (!HasArguments(a)) return true;
  bool go_on = true;
  const uint32_t stack = Remember(call);
  Program* program = state_->handles.GetState(Object::LoadedExecutable, a->executable).program;
  const bool ask_all = program == nullptr || program->Begin();
  const bool learned = program != nullptr && program->HasLearned();
  ForEachArgument(a, [&](size_t, PJRT_Buffer* buffer) { state_->handles.Prefetch(Object::Buffer, buffer); });
  ForEachArgument(a, [&](size_t i, PJRT_Buffer* buffer) {
    const bool may_consume = !learned || program->MayConsume(i);
    const Handles::State state = state_->handles.Use(Object::Buffer, buffer, stack, may_consume);
    if (!state.fine) [[unlikely]] {
      go_on &= CheckFound(call, kElement, buffer, state_->handles.Find(Object::Buffer, buffer), client);
      return;
    }
    if (*client == nullptr) *client = state.client;
    if (!state.uncertain && !ask_all) return;
    const bool has_contents = CheckContents(call, kElement, buffer, state);
    if (has_contents && state.uncertain && !may_consume) state_->handles.SetUncertain(Object::Buffer, buffer, false);
  });
  return go_on;
}

void ValidateLayer::RecordConsumedArguments(Call& call) {
  const auto* a = call.As<Args>();
  if (!HasArguments(a)) return;
  Program* program = state_->handles.GetState(Object::LoadedExecutable, a->executable).program;
  if (program == nullptr || program->HasLearned()) return;
  std::vector<uint64_t> may_consume((a->num_args + 63) / 64);
  ForEachArgument(a, [&](size_t i, PJRT_Buffer* buffer) {
    const bool there = state_->handles.GetState(Object::Buffer, buffer).fine;
    if (!there || IsDeletedOnTarget(*call.stack, buffer)) may_consume[i / 64] |= uint64_t{1} << i % 64;
  });
  const PJRT_ExecuteOptions* o = a->options;
  if (o != nullptr && Has(o, &PJRT_ExecuteOptions::num_non_donatable_input_indices) &&
      o->non_donatable_input_indices != nullptr) {
    for (size_t k = 0; k < o->num_non_donatable_input_indices; ++k) {
      const int64_t i = o->non_donatable_input_indices[k];
      if (i >= 0 && static_cast<size_t>(i) < a->num_args)
        may_consume[static_cast<size_t>(i) / 64] |= uint64_t{1} << i % 64;
    }
  }
  program->RecordExecution(a->num_args, may_consume);
}

// After a failed execution it is unknown which arguments were consumed.
void ValidateLayer::MarkArgumentsUncertain(Call& call) {
  const auto* a = call.As<Args>();
  if (!HasArguments(a)) return;
  ForEachArgument(a, [&](size_t, PJRT_Buffer* buffer) { state_->handles.SetUncertain(Object::Buffer, buffer, true); });
}

void ValidateLayer::TakeExecuteResults(Call& call, const void* client) {
  const auto* a = call.As<Args>();
  if (!Has(a, &Args::device_complete_events)) return;
  RecordConsumedArguments(call);
  const uint32_t stack = Remember(call);
  const Program* program = state_->handles.GetState(Object::LoadedExecutable, a->executable).program;
  const size_t outputs = program == nullptr || a->output_lists == nullptr ? 0 : program->outputs;
  for (size_t d = 0; d < a->num_devices; ++d) {
    for (size_t i = 0; i < outputs && a->output_lists[d] != nullptr; ++i) {
      state_->handles.AddOwned(Object::Buffer, a->output_lists[d][i], call.fn, stack, client);
    }
    if (a->device_complete_events != nullptr && a->device_complete_events[d] != nullptr) {
      state_->handles.AddOwned(Object::Event, a->device_complete_events[d], call.fn, stack, client);
    }
  }
}

}  // namespace backplane::layers
