import type { SessionRoomProps } from "../rooms";

export default function Conversation({ session }: SessionRoomProps) {
  return <p>{session}</p>;
}
