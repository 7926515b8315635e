#pragma once
/// Pictures of schedules.

#include <memory>
#include <span>
#include <string>

#include "studies/drawing/timeline.h"

namespace ibcoll {

/// A space-time chart as an SVG document: a row a rank, grouped by server, time to the right as
/// timeline() has it. Puts between servers are bars in the colour of the server they go to, with a
/// line to where they land as long as these can be told apart; copies inside the server are thin
/// bars below. Many ranks make thin rows, and bars to one server that follow each other are one.
/// The schedule must have passed verify().
std::string draw(const Shape& shape, std::span<const std::shared_ptr<const RankProgram>> programs,
                 const std::string& title, uint32_t pieces = 1);

/// The same with what ranks really did below it, in microseconds (activities_of() in recording.h).
std::string draw_beside(const Shape& shape,
                        std::span<const std::shared_ptr<const RankProgram>> programs,
                        const std::string& title, uint32_t pieces, std::vector<Activity> recorded,
                        const std::string& recorded_title);

}  // namespace ibcoll
