import type { RoomProps } from "../rooms";

export default function Room({ place }: RoomProps) {
  return <p>{place.room}</p>;
}
